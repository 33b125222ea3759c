// Gateway targets: whose turns are delivered where, and what waits. No key of one is ever shown.

import { html, useState } from "../vendor/htm-preact.js";
import { listTargets, setTarget, unsetTarget } from "../core/api.js";
import { Filters, readFilter } from "../core/filters.js";
import { Moment, Named, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Empty, Loaded, Table } from "../core/parts.js";
import { t } from "../core/texts.js";
import { OperatePage } from "./operate.js";

const KINDS = { "in force": "good", replaced: "warn", unset: "" };
const SCOPES = ["current_chat", "resources", "all_user_memory"];

export function Targets({ who, query }) {
  const filter = readFilter(query, ["tenant", "unset"]);
  const targets = useLoad(() => listTargets({ ...filter, names: who.makes_keys || undefined }), [JSON.stringify(filter)]);
  const [open, setOpen] = useState(null);
  const [said, say] = useState("");
  const done = (text) => {
    say(text);
    targets.reload();
  };
  const fields = [
    { name: "tenant", label: t("operate.tenant"), input: {} },
    { name: "unset", label: t("targets.unset.filter"), options: [["true", t("targets.unset.too")]] },
  ];
  const columns = [t("operate.tenant"), t("targets.gateway"), t("targets.user"), t("targets.state"), t("targets.waiting"), t("work.do")];
  return html`<${OperatePage} now="targets">
    <${Filters} page="targets" label=${t("work.filters")} filter=${filter} fields=${fields} />
    ${said && html`<p class="toast" role="status">${said}</p>`}
    ${who.makes_keys && html`<div class="actions start spaced"><button type="button" class="primary" onClick=${() => setOpen({ what: "set" })}>${t("targets.set")}</button></div>`}
    <${Loaded} of=${targets}>${(found) =>
      found.targets.length === 0
        ? html`<${Empty} title=${t("targets.none")} help=${t("targets.none.help")} />`
        : html`<div class="framed"><${Table} label=${t("operate.targets")} columns=${columns} rows=${found.targets.map((one) => describe(one, setOpen))} /></div>`}<//>
    ${open?.what === "set" && html`<${SetTarget} tenant=${filter.tenant} close=${() => setOpen(null)} done=${done} />`}
    ${open?.what === "unset" && html`<${Unset} of=${open.target} close=${() => setOpen(null)} done=${done} />`}
  <//>`;
}

function describe(one, setOpen) {
  const bank = one.bank_id && (one.bank ? html`<${Said} text=${one.bank} most=${80} />` : html`<code class="id">${one.bank_id}</code>`);
  return [
    html`<span class="strong"><${Named} name=${one.tenant} /></span> ${bank && html`<span class="quiet block">${t("work.bank")} ${bank}</span>`}`,
    html`<${Said} text=${one.url || t("targets.self")} most=${200} />`,
    html`<${Said} text=${`${one.user_id} (${one.app_id}/${one.project_id})`} most=${200} />`,
    html`<${Chip} kind=${KINDS[one.state]}>${t(`targets.state.${one.state.replace(" ", "")}`)}<//> <span class="quiet block"><${Moment} at=${one.set_at} /></span>`,
    html`<a href=${linkTo("work", { stage: "gateway", tenant: one.tenant })}>${number(one.waiting)}</a>`,
    // Of a bank whose name is not told, nothing can be unset.
    one.state === "unset" || (one.bank_id && !one.bank)
      ? html`<span class="quiet">–</span>`
      : html`<button type="button" class="small danger" onClick=${() => setOpen({ what: "unset", target: one })}>${t("targets.unset")}</button>`,
  ];
}

function SetTarget({ tenant, close, done }) {
  const [given, give] = useState({ tenant: tenant || "", bank: "", url: "", user_id: "", user_key: "", scope: ["current_chat", "resources"], allow_http: false });
  const put = (name) => (event) => give({ ...given, [name]: event.target.value });
  const act = async () => {
    const { bank, ...rest } = given;
    await setTarget({ ...rest, ...(bank ? { bank } : {}) });
    return t("targets.set.done");
  };
  const field = (name, more = {}) => html`<div>
    <label for=${`target-${name}`}>${t(`targets.${name}`)}</label>
    <input id=${`target-${name}`} value=${given[name]} onInput=${put(name)} autocomplete="off" ...${more} />
  </div>`;
  const toggle = (scope) => give({ ...given, scope: given.scope.includes(scope) ? given.scope.filter((one) => one !== scope) : [...given.scope, scope] });
  return html`<${Change} title=${t("targets.set")} verb=${t("targets.set.do")} act=${act} close=${close} done=${done} blocked=${given.scope.length === 0}>
    <p class="quiet">${t("targets.set.will")}</p>
    <div class="fields dense">${field("tenant", { required: true })} ${field("bank", { placeholder: t("keys.banks.all") })}</div>
    ${field("url", { required: true, type: "url" })}
    <div class="fields dense">${field("user_id", { required: true })} ${field("user_key", { required: true, type: "password" })}</div>
    <fieldset><legend>${t("targets.scope")}</legend>
      ${SCOPES.map((one) => html`<label class="check"><input type="checkbox" checked=${given.scope.includes(one)} onChange=${() => toggle(one)} />${one}</label>`)}
    </fieldset>
    <label class="check"><input type="checkbox" checked=${given.allow_http} onChange=${(event) => give({ ...given, allow_http: event.target.checked })} />${t("targets.allow_http")}</label>
  <//>`;
}

function Unset({ of, close, done }) {
  const act = async () => {
    const told = await unsetTarget({ tenant: of.tenant, bank: of.bank || undefined });
    return t("targets.unset.done", { n: number(told.targets.length), skipped: number(told.skipped) });
  };
  return html`<${Change} title=${t("targets.unset.title")} verb=${t("targets.unset")} act=${act} close=${close} done=${done} danger>
    <p><span class="strong"><${Named} name=${of.tenant} /></span> → <${Said} text=${of.url || t("targets.self")} most=${200} /></p>
    <p>${t("targets.unset.will", { n: number(of.waiting) })}</p>
  <//>`;
}
