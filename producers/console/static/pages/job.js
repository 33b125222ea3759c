// The work of one turn: its row in every stage, and what is recorded of each attempt.

import { html, useState } from "../vendor/htm-preact.js";
import { getJob, settleDelivery } from "../core/api.js";
import { Moment, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Copy, Loaded, Page, Status, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

// Deliveries that a person may settle, and what may be found and happen next.
const UNSETTLED = new Set(["add_unknown", "add_failed", "flush_failed"]);
const FINDINGS = ["delivered/flush", "delivered/done", "not-delivered/retry", "not-delivered/skip"];

export function Job({ query: { id, tenant } }) {
  const job = useLoad(() => getJob(id, tenant), [id, tenant]);
  const [open, setOpen] = useState(false);
  const [said, say] = useState("");
  const done = (text) => {
    say(text);
    job.reload();
  };
  const columns = [t("work.stage"), t("work.status"), t("work.attempts"), t("work.error"), t("job.updated"), t("job.next")];
  return html`<${Page} title=${t("job.title")} crumbs=${[{ text: t("work.title"), to: linkTo("work") }]}
    lead=${html`<${Said} text=${tenant} most=${80} /> · <code class="id">${id}</code> <${Copy} text=${id || ""} />`}>
    ${said && html`<p class="toast" role="status">${said}</p>`}
    ${open && html`<${Settle} id=${id} tenant=${tenant} close=${() => setOpen(false)} done=${done} />`}
    <${Loaded} of=${job}>${(found) => html`
      ${found.jobs.some((row) => UNSETTLED.has(row.state)) &&
      html`<div class="actions start spaced"><button type="button" onClick=${() => setOpen(true)}>${t("settle.do")}</button></div>`}
      <${Table} label=${t("job.rows")} columns=${columns} rows=${found.jobs.map(describe)} />
      <section class="spaced">
        <h2>${t("job.history")}</h2>
        ${found.history.length === 0
          ? html`<p class="quiet">${t("job.history.none")}</p>`
          : html`<div class="framed"><${Table} label=${t("job.history")} columns=${[t("job.at"), t("job.event")]}
              rows=${found.history.map((one) => [html`<${Moment} at=${one.at} />`, html`<code>${one.event}</code>`])} /></div>`}
      </section>
    `}<//>
  <//>`;
}

/** Settle a delivery as a person found it at the gateway. */
function Settle({ id, tenant, close, done }) {
  const [chosen, choose] = useState(FINDINGS[0]);
  const act = async () => {
    const [found, then] = chosen.split("/");
    await settleDelivery(id, { found, then, tenant });
    return t("settle.done");
  };
  return html`<${Change} title=${t("settle.title")} verb=${t("settle.do")} act=${act} close=${close} done=${done}>
    <p>${t("settle.lead")}</p>
    <fieldset>
      <legend>${t("settle.found")}</legend>
      ${FINDINGS.map((one) => html`<label class="check wide"
        ><input type="radio" name="finding" checked=${chosen === one} onChange=${() => choose(one)} />${t(`settle.${one}`)}</label
      >`)}
    </fieldset>
  <//>`;
}

const describe = (row) => [
  html`<span class="strong">${row.stage}</span> ${row.follow_up && html`<${Chip}>${t("job.followup")}<//>`}`,
  html`<${Status} of=${row.status} /> ${row.state !== row.status && html`<span class="quiet">${row.state}</span>`}`,
  number(row.attempts),
  row.category ? html`<${Said} text=${[row.category, row.reason].filter(Boolean).join(": ")} most=${400} />` : html`<span class="quiet">–</span>`,
  html`<${Moment} at=${row.updated_at} />`,
  row.waits_for ? t("job.waits", { stage: row.waits_for }) : html`<${Moment} at=${row.next_attempt_at} />`,
];
