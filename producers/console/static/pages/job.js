// The work of one turn: its row in every stage, and what is recorded of each attempt.

import { html } from "../vendor/htm-preact.js";
import { getJob } from "../core/api.js";
import { Moment, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Chip, Copy, Loaded, Page, Status, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

export function Job({ query: { id, tenant } }) {
  const job = useLoad(() => getJob(id, tenant), [id, tenant]);
  const columns = [t("work.stage"), t("work.status"), t("work.attempts"), t("work.error"), t("job.updated"), t("job.next")];
  return html`<${Page} title=${t("job.title")} crumbs=${[{ text: t("work.title"), to: linkTo("work") }]}
    lead=${html`<${Said} text=${tenant} most=${80} /> · <code class="id">${id}</code> <${Copy} text=${id || ""} />`}>
    <${Loaded} of=${job}>${(found) => html`
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

const describe = (row) => [
  html`<span class="strong">${row.stage}</span> ${row.follow_up && html`<${Chip}>${t("job.followup")}<//>`}`,
  html`<${Status} of=${row.status} /> ${row.state !== row.status && html`<span class="quiet">${row.state}</span>`}`,
  number(row.attempts),
  row.category ? html`<${Said} text=${[row.category, row.reason].filter(Boolean).join(": ")} most=${400} />` : html`<span class="quiet">–</span>`,
  html`<${Moment} at=${row.updated_at} />`,
  row.waits_for ? t("job.waits", { stage: row.waits_for }) : html`<${Moment} at=${row.next_attempt_at} />`,
];
