// Work that is undone, failed or unknown, over all tenants: filtered by the address, retried and dropped.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { changeJobs, changeMatchingJobs, countJobs, listJobs, listTenants } from "../core/api.js";
import { Filters, readFilter } from "../core/filters.js";
import { Said, age, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Empty, Loaded, Page, Paged, Status, Table } from "../core/parts.js";
import { FINDINGS, Findings, asFound } from "../core/settling.js";
import { t } from "../core/texts.js";
import { Count, WorkTabs, changeAll, sayChanged } from "../core/work.js";

const PAGE = 50;
const FILTERS = ["status", "stage", "tenant", "bank", "category", "older_than_s"];
const CHOICES = {
  status: ["pending", "running", "unknown", "dead"],
  stage: ["extraction", "embedding", "projection", "gateway", "enrichment"],
};
const TENANTS = 200;

export function Work({ query }) {
  const filter = readFilter(query, FILTERS);
  const [open, setOpen] = useState(null);
  const [said, say] = useState("");
  const [round, setRound] = useState(0);
  const done = (text) => {
    say(text);
    setRound(round + 1);
  };
  const columns = [t("work.status"), t("work.stage"), t("work.tenant"), t("work.attempts"), t("work.age"), t("work.error"), t("work.do")];
  const rows = ({ jobs }) =>
    jobs.length
      ? [html`<${Table} label=${t("work.title")} columns=${columns} rows=${jobs.map((one) => describe(one, setOpen))} />`]
      : [];
  const empty = html`<${Empty} title=${t("work.empty")} help=${t("work.empty.help")} />`;
  return html`<${Page} title=${t("work.title")} lead=${t("work.lead")}>
    <${WorkTabs} now="work" />
    <${WorkFilters} filter=${filter} />
    ${said && html`<p class="toast" role="status">${said}</p>`}
    <div class="actions start spaced">
      <${Count} count=${() => countJobs(filter)} say=${sayCounts} key=${`${JSON.stringify(filter)}${round}`} />
      <button type="button" onClick=${() => setOpen({ action: "retry" })}>${t("work.retry.many")}</button>
      <button type="button" class="danger" onClick=${() => setOpen({ action: "drop" })}>${t("work.drop.many")}</button>
      <button type="button" onClick=${() => setOpen({ action: "settle" })}>${t("work.settle.many")}</button>
    </div>
    <${Paged} load=${(cursor) => listJobs({ ...filter, limit: PAGE, cursor })} keys=${[JSON.stringify(filter), round]}
      rows=${rows} empty=${empty} />
    ${open && html`<${Bulk} ...${open} filter=${filter} close=${() => setOpen(null)} done=${done} />`}
  <//>`;
}

function describe(job, setOpen) {
  const act = (action) => html`<button type="button" class="small" onClick=${() => setOpen({ action, job })}>${t(`work.${action}`)}</button>`;
  return [
    html`<${Status} of=${job.status} />`,
    html`<a class="strong" href=${linkTo("job", { id: job.turn_id, tenant: job.tenant })}>${job.stage}</a>`,
    html`<${Said} text=${job.tenant} most=${80} />`,
    number(job.attempts),
    html`<span title=${job.accepted_at}>${age(job.age_s)}</span>`,
    job.category ? html`<${Said} text=${[job.category, job.reason].filter(Boolean).join(": ")} most=${200} />` : html`<span class="quiet">–</span>`,
    job.status === "dead" ? html`<span class="row tight">${act("retry")} ${act("drop")}</span>` : html`<span class="quiet">–</span>`,
  ];
}

/** The filters of work; a bank is one of its tenant. */
function WorkFilters({ filter }) {
  const tenants = useLoad(() => listTenants({ limit: TENANTS }), []);
  const choice = (name, text) => ({ name, label: t(`work.${name}`), options: CHOICES[name].map((value) => [value, text(value)]) });
  const field = (name, input = {}) => ({ name, label: t(`work.${name}`), input });
  const fields = [
    choice("status", (value) => t(`status.${value}`)),
    choice("stage", (value) => value),
    field("tenant", { list: "tenants" }),
    field("bank", { disabled: !filter.tenant }),
    field("category"),
    field("older_than_s", { type: "number", min: 0 }),
  ];
  return html`<${Filters} page="work" label=${t("work.filters")} filter=${filter} fields=${fields} drop=${without}>
    <datalist id="tenants">${(tenants.value?.tenants || []).map((one) => html`<option value=${one.name}></option>`)}</datalist>
  <//>`;
}

// A bank is one of its tenant, so it goes with it.
const without = (filter, name) => ({ ...filter, [name]: "", ...(name === "tenant" ? { bank: "" } : {}) });

/** How many rows match, in words. */
const sayCounts = (found) => t("work.counted", Object.fromEntries(CHOICES.status.map((name) => [name, number(found[name])])));

/** Retry or drop one row; retry, drop or settle all that match: counted by the server first, and changed by it. */
function Bulk({ action, job, filter, close, done }) {
  const reason = useRef();
  const [finding, setFinding] = useState(FINDINGS[0]);
  const where = whereOf(action, filter);
  const counted = useLoad(async () => (job ? { n: 1 } : ofCounts(await countJobs(where), action)), []);
  const [progress, setProgress] = useState(null);
  const act = async () => {
    const more = action === "drop" ? { reason: reason.current.value } : action === "settle" ? asFound(finding) : {};
    return sayChanged(
      job
        ? await changeJobs({ action, ...more, tenant: job.tenant, stage: job.stage, ids: [job.id] })
        : await changeAll(changeMatchingJobs, { action, ...more, where, counted_at: counted.value.counted_at }, setProgress),
    );
  };
  const title = t(job ? `work.${action}` : `work.${action}.all`);
  return html`<${Change} title=${title} verb=${t(`work.${action}`)} danger=${action === "drop"} act=${act} close=${close} done=${done}
    blocked=${!counted.value?.n}>
    <${Loaded} of=${counted}>${({ n }) => html`<p>${t(`work.${action}.will`, { n: number(n) })}</p>`}<//>
    ${action === "drop" && html`<div><label for="reason">${t("work.reason")}</label><input id="reason" ref=${reason} maxlength="200" /></div>`}
    ${action === "settle" && html`<${Findings} chosen=${finding} choose=${setFinding} />`}
    ${progress !== null && html`<p role="status">${t("work.progress", { done: number(progress), n: number(counted.value.n) })}</p>`}
  <//>`;
}

/** The rows that an action changes, of those that the filter shows: dead ones, or deliveries that may have arrived. */
const whereOf = (action, { older_than_s, ...filter }) => ({
  ...filter,
  ...(older_than_s && { older_than_s: Number(older_than_s) }),
  ...(action === "settle" ? { status: undefined, stage: "gateway", state: "add_unknown" } : { status: "dead" }),
});
const ofCounts = (counts, action) => ({ n: counts[action === "settle" ? "unknown" : "dead"], counted_at: counts.counted_at });
