// The work of one turn: its row in every stage, and what is recorded of each attempt.

import { html, useState } from "../vendor/htm-preact.js";
import { findTurn, getJob, settleDelivery } from "../core/api.js";
import { Moment, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Copy, Loaded, Page, Status, Table } from "../core/parts.js";
import { FINDINGS, Findings, asFound } from "../core/settling.js";
import { t } from "../core/texts.js";

// Deliveries that a person may settle.
const UNSETTLED = new Set(["add_unknown", "add_failed", "flush_failed"]);

// The steps of a delivery, each with the event that ends it; and by the state of its row: the step where it stands, and
// how that went wrong.
const STEPS = [
  { name: "accepted" },
  { name: "add", event: "memory_gateway_add_succeeded" },
  { name: "flush", event: "memory_gateway_flush_succeeded" },
];
const PLACES = {
  pending: [1, "pending"],
  adding: [1],
  add_unknown: [1, "unknown"],
  add_failed: [1, "dead"],
  dead: [1, "dead"],
  added: [2, "pending"],
  flushing: [2],
  flush_failed: [2, "dead"],
  flushed: [3],
};

export function Job({ who, query: { id, tenant } }) {
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
      <div class="actions start spaced">
        ${found.jobs.some((row) => UNSETTLED.has(row.state)) && html`<button type="button" onClick=${() => setOpen(true)}>${t("settle.do")}</button>`}
        ${who.tenant && who.tenant === found.jobs[0].tenant && html`<${ToTurn} id=${found.turn_id} />`}
      </div>
      <${Table} label=${t("job.rows")} columns=${columns} rows=${found.jobs.map(describe)} />
      ${found.jobs.filter(({ stage }) => stage === "gateway").map((row) => html`<${Delivery} row=${row} history=${found.history} />`)}
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

/** Goes to the turn in memory, whose names only its tenant's key may read. */
function ToTurn({ id }) {
  const [error, fail] = useState(null);
  const go = async () => {
    try {
      location.hash = linkTo("turn", await findTurn(id));
    } catch (found) {
      fail(found);
    }
  };
  if (error) return html`<p class="note">${error.status === 404 ? t("job.noturn") : error.message}</p>`;
  return html`<button type="button" onClick=${go}>${t("job.turn")}</button>`;
}

/** The way of a delivery: each step, and where it stands. */
function Delivery({ row, history }) {
  const [at, wrong] = PLACES[row.state] || [];
  const done = at === undefined ? -1 : at;
  const when = (event) => history.findLast((one) => one.event === event)?.at;
  const status = (place) => (place === at && wrong ? wrong : place < done || row.state === "flushed" ? "done" : place === done ? "running" : "pending");
  return html`<section class="card spaced" aria-labelledby="delivery">
    <h2 id="delivery">${t("job.delivery")}</h2>
    ${row.state === "skipped"
      ? html`<p class="quiet">${t("job.delivery.skipped")}</p>`
      : html`<ol class="stages">
          ${STEPS.map(({ name, event }, place) => html`<li>
            <span class="strong">${t(`delivery.${name}`)}</span>
            <${Status} of=${status(place)} />
            <span class="quiet">${status(place) === "done" && event ? html`<${Moment} at=${when(event)} />` : ""}</span>
          </li>`)}
        </ol>`}
  </section>`;
}

/** Settle a delivery as a person found it at the gateway. */
function Settle({ id, tenant, close, done }) {
  const [chosen, choose] = useState(FINDINGS[0]);
  const act = async () => {
    await settleDelivery(id, { ...asFound(chosen), tenant });
    return t("settle.done");
  };
  return html`<${Change} title=${t("settle.title")} verb=${t("settle.do")} act=${act} close=${close} done=${done}>
    <p>${t("settle.lead")}</p>
    <${Findings} chosen=${chosen} choose=${choose} />
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
