// A session: its turns in their order.

import { html } from "../vendor/htm-preact.js";
import { listTurns } from "../core/api.js";
import { Moment, Named, number } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Empty, Page, Paged, Table, bankCrumb } from "../core/parts.js";
import { t } from "../core/texts.js";

const PAGE = 50;

export function Session({ query: { bank = "default", session_id } }) {
  const columns = [t("turns.turn"), t("sessions.messages"), t("turns.accepted"), t("turns.position")];
  const rows = ({ turns }) =>
    turns.length
      ? [
          html`<${Table}
            label=${t("sessions.turns")}
            columns=${columns}
            rows=${turns.map((one) => [
              html`<a class="strong" href=${linkTo("turn", { bank, session_id, turn_id: one.turn_id })}
                ><${Named} name=${one.turn_id}
              /></a>`,
              number(one.messages),
              html`<${Moment} at=${one.accepted_at} />`,
              number(one.position),
            ])}
          />`,
        ]
      : [];
  return html`<${Page}
    title=${html`<${Named} name=${session_id} />`}
    lead=${t("sessions.session")}
    crumbs=${[{ text: t("nav.memory"), to: linkTo("memory") }, bankCrumb(bank)]}
  >
    <${Paged}
      load=${(cursor) => listTurns({ bank, session_id, limit: PAGE, cursor })}
      keys=${[bank, session_id]}
      rows=${rows}
      empty=${html`<${Empty} title=${t("turns.empty")} help=${t("turns.empty.help")} />`}
    />
  <//>`;
}
