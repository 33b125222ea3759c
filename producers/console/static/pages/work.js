// Work that is undone, failed or unknown, over all tenants: filtered by the address, retried and dropped.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { changeJobs, countJobs, listJobs, listTenants } from "../core/api.js";
import { Filters, readFilter } from "../core/filters.js";
import { Said, age, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Empty, Loaded, Page, Paged, Status, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

const PAGE = 50;
// What one call of the API changes at most.
const TOGETHER = 200;
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
    <${WorkFilters} filter=${filter} />
    ${said && html`<p class="toast" role="status">${said}</p>`}
    <div class="actions start spaced">
      <${Count} filter=${filter} key=${`${JSON.stringify(filter)}${round}`} />
      <button type="button" onClick=${() => setOpen({ action: "retry" })}>${t("work.retry.all")}</button>
      <button type="button" class="danger" onClick=${() => setOpen({ action: "drop" })}>${t("work.drop.all")}</button>
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

/** How many rows match: counted when it is asked for, since all of them are read. */
function Count({ filter }) {
  const [state, set] = useState({});
  const count = async () => {
    set({ busy: true });
    try {
      set({ found: await countJobs(filter) });
    } catch (error) {
      set({ error });
    }
  };
  if (state.error) return html`<span role="alert">${state.error.message}</span>`;
  if (!state.found) return html`<button type="button" disabled=${state.busy} onClick=${count}>${t("work.count")}</button>`;
  const shown = Object.fromEntries(Object.entries(state.found).map(([name, value]) => [name, number(value)]));
  return html`<span role="status">${t("work.counted", shown)}</span>`;
}

/** Retry or drop one row, or all dead rows that match: counted by the server first, then changed page by page. */
function Bulk({ action, job, filter, close, done }) {
  const reason = useRef();
  const wanted = { ...filter, status: "dead" };
  const counted = useLoad(async () => (job ? 1 : (await countJobs(wanted)).dead), []);
  const [progress, setProgress] = useState(null);
  const act = async () => {
    const more = action === "drop" ? { action, reason: reason.current.value } : { action };
    const told = job ? await changeGroup([job], more) : await changeAll(wanted, more, setProgress);
    return t(told.left ? "work.left" : "work.changed", { n: number(told.changed), left: number(told.left) });
  };
  const title = t(job ? `work.${action}` : `work.${action}.all`);
  return html`<${Change} title=${title} verb=${t(`work.${action}`)} danger=${action === "drop"} act=${act} close=${close} done=${done}
    blocked=${!counted.value}>
    <${Loaded} of=${counted}>${(n) => html`<p>${t(`work.${action}.will`, { n: number(n) })}</p>`}<//>
    ${action === "drop" && html`<div><label for="reason">${t("work.reason")}</label><input id="reason" ref=${reason} maxlength="200" /></div>`}
    ${progress !== null && html`<p role="status">${t("work.progress", { done: number(progress), n: number(counted.value) })}</p>`}
  <//>`;
}

/** Change all rows that match, page by page: the place of the last one decides what is next, so each is met once. */
async function changeAll(wanted, more, tell) {
  const told = { changed: 0, left: 0 };
  let page = { has_more: true, cursor: undefined };
  while (page.has_more) {
    page = await listJobs({ ...wanted, limit: TOGETHER, cursor: page.cursor });
    for (const group of groupJobs(page.jobs)) {
      const { changed, left } = await changeGroup(group, more);
      told.changed += changed;
      told.left += left;
      tell(told.changed + told.left);
    }
  }
  return told;
}

const changeGroup = (jobs, more) =>
  changeJobs({ ...more, tenant: jobs[0].tenant, stage: jobs[0].stage, ids: jobs.map((one) => one.id) });

/** Rows of one tenant and stage together, as one call takes them. */
function groupJobs(jobs) {
  const groups = new Map();
  for (const one of jobs) {
    const key = JSON.stringify([one.tenant, one.stage]);
    groups.set(key, [...(groups.get(key) || []), one]);
  }
  return [...groups.values()];
}
