// The call audit: who called what, the newest first; never content.

import { html, useState } from "../vendor/htm-preact.js";
import { listCalls } from "../core/api.js";
import { Filters, readFilter } from "../core/filters.js";
import { Moment, Named, Said, ms } from "../core/format.js";
import { useLoad } from "../core/hooks.js";
import { Chip, Empty, Loaded, Table } from "../core/parts.js";
import { t } from "../core/texts.js";
import { OperatePage } from "./operate.js";

const FIRST = 50;
const MOST = 400;
const NAMES = ["tenant", "door", "operation", "since_s", "refused"];
const SINCE = { 3600: "audit.hour", 86400: "audit.day", 604800: "audit.week" };
const INTERFACES = ["http", "mcp", "gateway", "operator", "console"];

export function Audit({ query }) {
  const filter = readFilter(query, NAMES);
  const [limit, setLimit] = useState(FIRST);
  const calls = useLoad(() => listCalls({ ...filter, limit }), [JSON.stringify(filter), limit]);
  const fields = [
    { name: "tenant", label: t("operate.tenant"), input: {} },
    { name: "door", label: t("audit.door"), options: INTERFACES.map((one) => [one, one]) },
    { name: "operation", label: t("audit.operation"), input: { placeholder: "POST /api/v1/turns" } },
    { name: "since_s", label: t("audit.since"), options: Object.entries(SINCE).map(([value, text]) => [value, t(text)]) },
    { name: "refused", label: t("audit.result"), options: [["true", t("audit.refused")]] },
  ];
  const columns = [t("job.at"), t("audit.operation"), t("audit.who"), t("audit.result"), t("recall.took")];
  return html`<${OperatePage} now="audit">
    <${Filters} page="audit" label=${t("work.filters")} filter=${filter} fields=${fields} />
    <${Loaded} of=${calls}>${(found) =>
      found.calls.length === 0
        ? html`<${Empty} title=${t("audit.none")} help=${t("audit.none.help")} />`
        : html`<div class="framed"><${Table} label=${t("operate.audit")} columns=${columns} rows=${found.calls.map(describe)} /></div>
            ${found.has_more && limit < MOST && html`<nav class="pager" aria-label=${t("audit.more")}><button type="button" onClick=${() => setLimit(limit * 2)}>${t("audit.more")}</button></nav>`}`}<//>
  <//>`;
}

const KeyOf = ({ call }) => {
  if (call.key_label) return html`<${Named} name=${call.key_label} />`;
  return call.key_id ? html`<code class="id">${call.key_id.slice(0, 8)}</code>` : html`<${Said} text=${call.actor || "–"} most=${80} />`;
};

const describe = (one) => [
  html`<${Moment} at=${one.at} />`,
  html`<span><code class="operation">${one.operation}</code> <span class="quiet block">${one.door}</span></span>`,
  html`<span>${one.tenant && html`<${Named} name=${one.tenant} />`}
    <span class=${one.tenant ? "quiet block" : "quiet"}><${KeyOf} call=${one} /></span></span>`,
  one.code ? html`<${Chip} kind="status-dead">${one.code}<//>` : html`<${Chip} kind="good">${one.status ?? "–"}<//>`,
  html`<span class="nowrap">${t("recall.ms", { n: ms(one.took_ms) })}</span>`,
];
