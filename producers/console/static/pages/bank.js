// A bank: what it holds, a list for each kind, and when it ends.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import * as api from "../core/api.js";
import { Moment, Named, Prose, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Empty, Gate, Page, Paged, Table, Tabs } from "../core/parts.js";
import { t } from "../core/texts.js";
import { UnitCard } from "../core/units.js";

const ROWS = 50;
// A listed text has 2,000 characters at most: so a page stays below 200 kB.
const TEXTS = 20;

const units = (chosen) => ({
  gated: true,
  load: (query) => api.listUnits({ ...query, ...chosen, limit: TEXTS }),
  rows: ({ units }, bank) => units.map((one) => html`<${UnitCard} bank=${bank} unit=${one} />`),
});

/** The lists by the name in the address: `load` reads a page, `rows` shows it; one that is `gated` shows content. */
const VIEWS = {
  sessions: { load: (query) => api.listSessions({ ...query, limit: ROWS }), rows: describeSessions },
  units: units(),
  facts: units({ origin: "extraction" }),
  memories: units({ origin: "memory" }),
  entities: { gated: true, load: (query) => api.listEntities({ ...query, limit: ROWS }), rows: describeEntities },
  documents: { gated: true, load: (query) => api.listDocuments({ ...query, limit: ROWS }), rows: describeDocuments },
  directives: { gated: true, load: (query) => api.listDirectives({ ...query, limit: TEXTS }), rows: describeDirectives },
  reflections: { gated: true, load: (query) => api.listReflections({ ...query, limit: TEXTS }), rows: describeReflections },
};

export function Bank({ who, query: { bank = "default", view = "sessions" } }) {
  const fresh = useLoad(() => api.getFreshness(bank), [bank]);
  const [open, setOpen] = useState(false);
  const [said, say] = useState("");
  const shown = view in VIEWS ? view : "sessions";
  const pending = fresh.value?.pending;
  const list = html`<${List} bank=${bank} name=${shown} />`;
  return html`<${Page}
    title=${html`<${Named} name=${bank} />`}
    lead=${pending === undefined ? " " : pending ? t("bank.behind", { n: number(pending) }) : t("bank.fresh")}
    crumbs=${[{ text: t("nav.memory"), to: linkTo("memory") }]}
    beside=${html`${who.write && html`<button type="button" onClick=${() => setOpen(true)}>${t("bank.end")}</button>`}
      <a class="button primary" href=${linkTo("recall", { bank })}>${t("bank.ask")}</a>`}
  >
    ${said && html`<p class="toast" role="status">${said}</p>`}
    <${Tabs} label=${t("bank.lists")} now=${shown}
      items=${Object.keys(VIEWS).map((id) => ({ id, text: t(`bank.${id}`), to: linkTo("bank", { bank, ...(id !== "sessions" && { view: id }) }) }))} />
    ${VIEWS[shown].gated ? html`<${Gate}>${list}<//>` : list}
    ${open && html`<${End} bank=${bank} close=${() => setOpen(false)} done=${say} />`}
  <//>`;
}

const List = ({ bank, name }) => html`<${Paged}
  load=${(cursor) => VIEWS[name].load({ bank, cursor })}
  keys=${[bank, name]}
  rows=${(page) => VIEWS[name].rows(page, bank)}
  empty=${html`<${Empty} title=${t(`${name}.empty`)} help=${t(`${name}.empty.help`)} />`}
/>`;

/** One table, or nothing where there is no row. */
const tableOf = (rows, name, columns, describe) =>
  rows.length ? [html`<${Table} label=${t(`bank.${name}`)} columns=${columns} rows=${rows.map(describe)} />`] : [];

function describeSessions({ sessions }, bank) {
  const columns = [t("sessions.session"), t("sessions.turns"), t("sessions.messages"), t("sessions.updated")];
  return tableOf(sessions, "sessions", columns, (one) => [
    html`<a class="strong" href=${linkTo("session", { bank, session_id: one.session_id })}><${Named} name=${one.session_id} /></a>`,
    number(one.turns),
    number(one.messages),
    html`<${Moment} at=${one.updated_at} />`,
  ]);
}

function describeEntities({ entities }, bank) {
  const columns = [t("around.entity"), t("around.mentions"), t("person.facts"), t("entities.updated")];
  return tableOf(entities, "entities", columns, (one) => [
    html`<a class="strong" href=${linkTo("around", { bank, entity_id: one.entity_id })}><${Named} name=${one.name} /></a>`,
    number(one.mentions),
    html`<a href=${linkTo("person", { bank, name: one.name })}>${t("operate.show")}</a>`,
    html`<${Moment} at=${one.updated_at} />`,
  ]);
}

function describeDocuments({ docs }, bank) {
  const columns = [t("documents.title"), t("documents.units"), t("documents.updated")];
  return tableOf(docs, "documents", columns, (one) => [
    html`<a class="strong" href=${linkTo("document", { bank, doc_id: one.doc_id })}><${Named} name=${one.title || t("documents.untitled")} /></a>`,
    number(one.units),
    html`<${Moment} at=${one.updated_at} />`,
  ]);
}

function describeDirectives({ directives }) {
  return directives.map((one) => html`<article class="card">
    <h2><${Named} name=${one.name} /></h2>
    <p class="unit-text"><${Said} text=${one.content} most=${2000} /></p>
    <p class="meta"><${Chip}>${t("directives.priority", { n: number(one.priority) })}<//>
      ${one.laid_down_by && html`<span>${t("directives.by")} <${Named} name=${one.laid_down_by} /></span>`}</p>
  </article>`);
}

function describeReflections({ reflections }, bank) {
  return reflections.map((one) => html`<a class="card unit" href=${linkTo("unit", { bank, unit_id: one.reflection_id })}>
    <span class="unit-text"><${Said} text=${one.content} most=${2000} /></span>
    <span class="meta"><${Moment} at=${one.updated_at} /></span>
  </a>`);
}

/** Set or take away the end of a bank. */
function End({ bank, close, done }) {
  const field = useRef();
  const act = async () => {
    const at = field.current.value && new Date(field.current.value).toISOString();
    await api.changeBank(bank, { expires_at: at || null });
    return t(at ? "bank.end.done" : "bank.end.never");
  };
  return html`<${Change} title=${t("bank.end.title")} verb=${t("bank.end.do")} act=${act} close=${close} done=${done} danger>
    <p><${Prose} text=${t("bank.end.will")} /></p>
    <div><label for="end">${t("bank.end.at")}</label><input id="end" ref=${field} type="datetime-local" /></div>
  <//>`;
}
