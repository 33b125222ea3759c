// A bank: its sessions and its units.

import { html } from "../vendor/htm-preact.js";
import { getFreshness, listSessions, listUnits } from "../core/api.js";
import { Moment, Named, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Chip, Empty, Gate, Page, Paged, Table, Tabs } from "../core/parts.js";
import { t } from "../core/texts.js";

const SESSIONS = 50;
// A listed text has 2,000 characters at most: so a page stays below 200 kB.
const UNITS = 20;

export function Bank({ query: { bank = "default", view = "sessions" } }) {
  const fresh = useLoad(() => getFreshness(bank), [bank]);
  const tabs = [
    { id: "sessions", text: t("bank.sessions"), to: linkTo("bank", { bank }) },
    { id: "units", text: t("bank.units"), to: linkTo("bank", { bank, view: "units" }) },
  ];
  const pending = fresh.value?.pending;
  return html`<${Page}
    title=${html`<${Named} name=${bank} />`}
    lead=${pending === undefined ? " " : pending ? t("bank.behind", { n: number(pending) }) : t("bank.fresh")}
    crumbs=${[{ text: t("nav.memory"), to: linkTo("memory") }]}
    beside=${html`<a class="button primary" href=${linkTo("recall", { bank })}>${t("bank.ask")}</a>`}
  >
    <${Tabs} label=${t("banks.name")} items=${tabs} now=${view} />
    ${view === "units"
      ? html`<${Gate}><${UnitList} bank=${bank} /><//>`
      : html`<${SessionList} bank=${bank} />`}
  <//>`;
}

function SessionList({ bank }) {
  const columns = [t("sessions.session"), t("sessions.turns"), t("sessions.messages"), t("sessions.updated")];
  const rows = ({ sessions }) =>
    sessions.length
      ? [
          html`<${Table}
            label=${t("bank.sessions")}
            columns=${columns}
            rows=${sessions.map((one) => [
              html`<a class="strong" href=${linkTo("session", { bank, session_id: one.session_id })}
                ><${Named} name=${one.session_id}
              /></a>`,
              number(one.turns),
              number(one.messages),
              html`<${Moment} at=${one.updated_at} />`,
            ])}
          />`,
        ]
      : [];
  return html`<${Paged}
    load=${(cursor) => listSessions({ bank, limit: SESSIONS, cursor })}
    keys=${[bank]}
    rows=${rows}
    empty=${html`<${Empty} title=${t("sessions.empty")} help=${t("sessions.empty.help")} />`}
  />`;
}

function UnitList({ bank }) {
  return html`<${Paged}
    load=${(cursor) => listUnits({ bank, limit: UNITS, cursor })}
    keys=${[bank]}
    rows=${({ units }) => units.map((one) => html`<${UnitCard} bank=${bank} unit=${one} />`)}
    empty=${html`<${Empty} title=${t("units.empty")} help=${t("units.empty.help")} />`}
  />`;
}

export const UnitCard = ({ bank, unit }) => html`<a class="card unit" href=${linkTo("unit", { bank, unit_id: unit.unit_id })}>
  <span class="unit-text"><${Said} text=${unit.text} most=${320} /></span>
  <span class="meta">
    <${Chip}>${unit.kind}<//>
    <span>${unit.origin}</span>
    ${(unit.name || unit.role) && html`<span><${Named} name=${unit.name || unit.role} /></span>`}
    <${Moment} at=${unit.occurred_at} />
    ${unit.cut && html`<span>${t("units.cut")}</span>`}
  </span>
</a>`;
