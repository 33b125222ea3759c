// A tenant: its keys, made, rotated and revoked; its quotas.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { getQuotas, getTenant, listKeys, listSnapshots, revokeKey, rotateKey, setQuota } from "../core/api.js";
import { Moment, Named, Prose, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Copy, Empty, Loaded, Page, Table } from "../core/parts.js";
import { t } from "../core/texts.js";
import { NewKey, NewSecret, NoKeys } from "./operate.js";

const LIMITS = ["max_turns", "max_bytes", "max_banks", "turns_per_minute"];
const USED = { max_turns: "turns", max_bytes: "bytes", max_banks: "banks" };
const KINDS = { active: "good", revoked: "status-dead", expired: "" };
const HOUR_S = 3600;

export function Tenant({ who, query: { id } }) {
  const tenant = useLoad(() => getTenant(id), [id]);
  return html`<${Loaded} of=${tenant}>${(found) => html`<${Page} title=${html`<${Named} name=${found.name} />`} lead=${t("operate.tenant")}
    crumbs=${[{ text: t("operate.operate"), to: linkTo("operate") }]}>
    <dl class="figures">
      <div><dt>${t("operate.since")}</dt><dd><${Moment} at=${found.created_at} /></dd></div>
      <div><dt>${t("keys.active")}</dt><dd>${number(found.active_keys)}</dd></div>
      <div><dt>${t("now.undone")}</dt><dd><a href=${linkTo("work", { tenant: found.name })}>${number(found.undone)}</a></dd></div>
      <div><dt>${t("operate.targets")}</dt><dd><a href=${linkTo("targets", { tenant: found.name })}>${t("operate.show")}</a></dd></div>
      <div><dt>${t("operate.audit")}</dt><dd><a href=${linkTo("audit", { tenant: found.name })}>${t("operate.show")}</a></dd></div>
    </dl>
    <${KeysOf} who=${who} tenant=${found.name} changed=${tenant.reload} />
    <${QuotasOf} tenant=${found.name} />
    <${SnapshotsOf} tenant=${found.name} />
  <//>`}<//>`;
}

function KeysOf({ who, tenant, changed }) {
  const keys = useLoad(() => listKeys(tenant), [tenant]);
  const [open, setOpen] = useState(null);
  const [secret, setSecret] = useState(null);
  const [said, say] = useState("");
  const done = (told) => {
    if (told?.key) setSecret(told);
    say(told?.key ? "" : told);
    keys.reload();
    changed();
  };
  const shared = { tenant, close: () => setOpen(null), done };
  const columns = [t("keys.label"), t("keys.reach"), t("keys.created"), t("keys.end"), t("keys.state"), t("work.do")];
  return html`<section class="spaced">
    <h2>${t("keys.title")}</h2>
    <${NewSecret} secret=${secret} close=${() => setSecret(null)} />
    ${said && html`<p class="toast" role="status">${said}</p>`}
    ${who.makes_keys
      ? html`<div class="actions start spaced"><button type="button" class="primary" onClick=${() => setOpen({ what: "new" })}>${t("keys.new")}</button></div>`
      : html`<${NoKeys} />`}
    <${Loaded} of=${keys}>${(found) =>
      found.keys.length === 0
        ? html`<${Empty} title=${t("keys.none")} />`
        : html`<div class="framed"><${Table} label=${t("keys.title")} columns=${columns}
            rows=${found.keys.map((one) => describeKey(one, who, (what) => setOpen({ what, key: one })))} /></div>`}<//>
    ${open?.what === "new" && html`<${NewKey} ...${shared} />`}
    ${open?.what === "rotate" && html`<${Rotate} ...${shared} of=${open.key} />`}
    ${open?.what === "revoke" && html`<${Revoke} ...${shared} of=${open.key} />`}
  </section>`;
}

function describeKey(one, who, act) {
  const limits = [
    !one.write && t("who.reads"),
    one.user && t("who.user", { name: one.user }),
    one.agent && t("who.agent", { name: one.agent }),
    one.gateway_user && t("keys.gateway", { name: one.gateway_user }),
  ].filter(Boolean);
  const button = (what) => html`<button type="button" class=${`small ${what === "revoke" ? "danger" : ""}`} onClick=${() => act(what)}>${t(`keys.${what}`)}</button>`;
  return [
    html`<span class="strong">${one.label ? html`<${Named} name=${one.label} />` : t("keys.unlabelled")}</span>
      <span class="quiet block"><code class="id">${one.key_id.slice(0, 8)}</code></span>`,
    html`<span>${one.banks ? html`<${Said} text=${one.banks.join(", ")} most=${120} />` : t("keys.banks.all")}
      ${limits.length > 0 && html`<span class="quiet block"><${Said} text=${limits.join(" · ")} most=${120} /></span>`}</span>`,
    html`<${Moment} at=${one.created_at} />`,
    one.revoked_at || one.expires_at ? html`<${Moment} at=${one.revoked_at || one.expires_at} />` : html`<span class="quiet">${t("banks.never")}</span>`,
    html`<${Chip} kind=${KINDS[one.state]}>${t(`keys.state.${one.state}`)}<//>`,
    one.state !== "active"
      ? html`<span class="quiet">–</span>`
      : html`<span class="row tight">${who.makes_keys && !one.replaced_by && button("rotate")} ${button("revoke")}</span>`,
  ];
}

function Rotate({ of, tenant, ...shared }) {
  const hours = useRef();
  const act = () => rotateKey(of.key_id, { tenant, overlap_s: Math.round(Number(hours.current.value) * HOUR_S) });
  return html`<${Change} ...${shared} title=${t("keys.rotate.title")} verb=${t("keys.rotate")} act=${act}>
    <p>${t("keys.rotate.will")}</p>
    <div><label for="overlap">${t("keys.overlap")}</label>
      <input id="overlap" ref=${hours} type="number" min="0" max="8784" defaultValue="24" required /></div>
  <//>`;
}

function Revoke({ of, tenant, ...shared }) {
  const act = async () => {
    await revokeKey(of.key_id, tenant);
    return t("keys.revoked");
  };
  return html`<${Change} ...${shared} title=${t("keys.revoke.title")} verb=${t("keys.revoke")} act=${act} danger>
    <p><span class="strong"><${Named} name=${of.label || of.key_id} /></span></p>
    <p>${t("keys.revoke.will")}</p>
  <//>`;
}

function QuotasOf({ tenant }) {
  const quotas = useLoad(() => getQuotas(tenant), [tenant]);
  const [open, setOpen] = useState(null);
  const [said, say] = useState("");
  const done = (text) => {
    say(text);
    quotas.reload();
  };
  // A tenant without a quota of its own has a row all the same: there one is set.
  const rows = ({ quotas: set }) => (set.some((one) => one.bank === null) ? set : [{ bank: null, limits: {}, used: {} }, ...set]);
  const columns = [t("quota.of"), ...LIMITS.map((name) => t(`quota.${name}`)), t("work.do")];
  const cell = (quota, name) => {
    const most = quota.limits[name];
    const used = quota.used[USED[name]];
    if (most === null || most === undefined) return html`<span class="quiet">${used === undefined ? t("quota.unlimited") : t("quota.free", { used: number(used) })}</span>`;
    return used === undefined ? number(most) : html`<span>${t("quota.used", { used: number(used), most: number(most) })}</span><${Share} used=${used} most=${most} />`;
  };
  return html`<section class="spaced">
    <h2>${t("quota.title")}</h2>
    <p class="quiet">${t("quota.help")}</p>
    ${said && html`<p class="toast" role="status">${said}</p>`}
    <${Loaded} of=${quotas}>${(found) => html`<div class="framed"><${Table} label=${t("quota.title")} columns=${columns}
      rows=${rows(found).map((one) => [
        one.bank === null ? html`<span class="strong">${t("quota.whole")}</span>` : html`<${Named} name=${one.bank} />`,
        ...LIMITS.map((name) => cell(one, name)),
        html`<button type="button" class="small" onClick=${() => setOpen(one)}>${t("quota.set")}</button>`,
      ])} /></div>
      <div class="actions start"><button type="button" onClick=${() => setOpen({ bank: "", limits: {} })}>${t("quota.bank")}</button></div>`}<//>
    ${open && html`<${SetQuota} tenant=${tenant} of=${open} close=${() => setOpen(null)} done=${done} />`}
  </section>`;
}

const Share = ({ used, most }) => html`<svg class="shares" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
  <rect class="track" width="100" height="6" /><rect class=${used >= most ? "full" : "arm-1"} width=${most ? Math.min(100, (100 * used) / most) : 100} height="6" />
</svg>`;

function SetQuota({ tenant, of, close, done }) {
  const names = of.bank === null ? LIMITS : LIMITS.filter((name) => name !== "max_banks");
  const [given, give] = useState({ bank: of.bank, ...Object.fromEntries(names.map((name) => [name, of.limits[name] ?? ""])) });
  const put = (name) => (event) => give({ ...given, [name]: event.target.value });
  const act = async () => {
    const limits = Object.fromEntries(names.filter((name) => given[name] !== "").map((name) => [name, Number(given[name])]));
    await setQuota({ tenant, ...(of.bank === null ? {} : { bank: given.bank }), ...limits });
    return t("quota.done");
  };
  return html`<${Change} title=${t("quota.set.title")} verb=${t("quota.set")} act=${act} close=${close} done=${done}>
    <p class="quiet">${t("quota.set.help")}</p>
    ${of.bank === "" && html`<div><label for="quota-bank">${t("work.bank")}</label><input id="quota-bank" value=${given.bank} onInput=${put("bank")} required /></div>`}
    ${of.bank && html`<p><${Named} name=${of.bank} /> <${Copy} text=${of.bank} /></p>`}
    <div class="fields dense">
      ${names.map((name) => html`<div><label for=${name}>${t(`quota.${name}`)}</label>
        <input id=${name} type="number" min="0" placeholder=${t("quota.unlimited")} value=${given[name]} onInput=${put(name)} /></div>`)}
    </div>
  <//>`;
}

/** Exports and imports: they are made by the command line, whose files a browser does not hold. */
function SnapshotsOf({ tenant }) {
  const found = useLoad(() => listSnapshots(tenant), [tenant]);
  const columns = [t("snapshot.kind"), t("keys.state"), t("snapshot.parts"), t("snapshot.events"), t("snapshot.by"), t("snapshot.begun"), t("snapshot.finished")];
  return html`<section class="spaced">
    <h2>${t("snapshot.title")}</h2>
    <p class="quiet"><${Prose} text=${t("snapshot.help")} /></p>
    <${Loaded} of=${found}>${({ snapshots }) =>
      snapshots.length > 0 &&
      html`<div class="framed spaced"><${Table} label=${t("snapshot.title")} columns=${columns} rows=${snapshots.map(describeSnapshot)} /></div>`}<//>
  </section>`;
}

const describeSnapshot = (one) => [
  html`<span class="strong">${t(`snapshot.${one.kind}`)}</span>`,
  html`<${Chip} kind=${one.status === "done" ? "good" : "warn"}>${t(`snapshot.${one.status}`)}<//>`,
  html`<span>${one.parts.length ? one.parts.join(", ") : t("snapshot.bare")} ${one.masked && html`<${Chip}>${t("snapshot.masked")}<//>`} ${one.dry_run && html`<${Chip}>${t("snapshot.dry")}<//>`}</span>`,
  number(one.counts.events ?? one.counts.total),
  html`<${Said} text=${one.made_by} most=${80} />`,
  html`<${Moment} at=${one.started_at} />`,
  one.finished_at ? html`<${Moment} at=${one.finished_at} />` : html`<span class="quiet">–</span>`,
];
