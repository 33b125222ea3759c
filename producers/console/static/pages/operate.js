// Operate: the tenants, and the ways to the other pages that an operator works with.

import { html, useState } from "../vendor/htm-preact.js";
import { createKey, listTenants } from "../core/api.js";
import { Moment, Named, Said } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Change, Copy, Empty, Page, Paged, Table, Tabs } from "../core/parts.js";
import { t } from "../core/texts.js";

const PAGE = 50;
const PAGES = ["operate", "targets", "vectors", "audit", "settings", "doctor", "erasure"];

/** A page below Operate, with the ways to the others. */
export const OperatePage = ({ now, children, ...more }) => html`<${Page} title=${t(`operate.${now}`)} lead=${t(`operate.${now}.lead`)} ...${more}>
  <${Tabs} label=${t("nav.operate")} now=${now} items=${PAGES.map((id) => ({ id, text: t(`operate.${id}`), to: linkTo(id) }))} />
  ${children}
<//>`;

export function Operate({ who }) {
  const [open, setOpen] = useState(false);
  const [secret, setSecret] = useState(null);
  const [round, setRound] = useState(0);
  const done = (made) => {
    setSecret(made);
    setRound(round + 1);
  };
  const columns = [t("operate.tenant"), t("operate.since"), t("operate.work")];
  const rows = ({ tenants }) =>
    tenants.length
      ? [html`<${Table} label=${t("operate.operate")} columns=${columns} rows=${tenants.map((one) => [
          html`<a class="strong" href=${linkTo("tenant", { id: one.tenant_id })}><${Named} name=${one.name} /></a>`,
          html`<${Moment} at=${one.created_at} />`,
          html`<a href=${linkTo("work", { tenant: one.name })}>${t("operate.work.show")}</a>`,
        ])} />`]
      : [];
  return html`<${OperatePage} now="operate">
    <${NewSecret} secret=${secret} close=${() => setSecret(null)} />
    ${who.makes_keys
      ? html`<div class="actions start spaced"><button type="button" class="primary" onClick=${() => setOpen(true)}>${t("keys.new")}</button></div>`
      : html`<${NoKeys} />`}
    <${Paged} load=${(cursor) => listTenants({ limit: PAGE, cursor })} keys=${[round]} rows=${rows}
      empty=${html`<${Empty} title=${t("operate.empty")} help=${t("operate.empty.help")} />`} />
    ${open && html`<${NewKey} close=${() => setOpen(false)} done=${done} />`}
  <//>`;
}

export const NoKeys = () => html`<p class="note">${t("keys.cannot")}</p>`;

/** A secret that is shown this once. */
export const NewSecret = ({ secret, close }) =>
  secret &&
  html`<section class="card secret" role="status" aria-labelledby="secret">
    <h2 id="secret">${t("keys.made")}</h2>
    <p>${t("keys.once")}</p>
    <p class="row"><code>${secret.key}</code><${Copy} text=${secret.key} /></p>
    ${secret.expires_at && html`<p class="quiet">${t("keys.ends")} <${Moment} at=${secret.expires_at} /></p>`}
    <div class="actions start"><button type="button" onClick=${close}>${t("keys.kept")}</button></div>
  </section>`;

const DAY_S = 86400;

/** Make a key of a tenant; without one given, the tenant is named, and made with its first key. */
export function NewKey({ tenant, close, done }) {
  const [given, give] = useState({ tenant: tenant || "", label: "", banks: "", user: "", agent: "", write: true, days: "" });
  const put = (name) => (event) => give({ ...given, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const act = () => {
    const body = { tenant: given.tenant.trim(), label: given.label.trim(), write: given.write };
    const banks = given.banks.split(",").map((one) => one.trim()).filter(Boolean);
    if (banks.length) body.banks = banks;
    for (const name of ["user", "agent"]) if (given[name].trim()) body[name] = given[name].trim();
    if (given.days) body.expires_s = Number(given.days) * DAY_S;
    return createKey(body);
  };
  const field = (name, more = {}) => html`<div>
    <label for=${`key-${name}`}>${t(`keys.${name}`)}</label>
    <input id=${`key-${name}`} value=${given[name]} onInput=${put(name)} ...${more} />
  </div>`;
  return html`<${Change} title=${t("keys.new")} verb=${t("keys.make")} act=${act} close=${close} done=${done}>
    <p class="quiet">${t("keys.new.help")}</p>
    ${tenant ? html`<p><${Said} text=${tenant} most=${120} /></p>` : field("tenant", { required: true, maxlength: 256 })}
    ${field("label", { maxlength: 256 })}
    <div class="fields dense">
      ${field("banks", { placeholder: t("keys.banks.all") })} ${field("days", { type: "number", min: 1, max: 3660, placeholder: t("keys.days.never") })}
      ${field("user")} ${field("agent")}
    </div>
    <label class="check"><input type="checkbox" checked=${given.write} onChange=${put("write")} />${t("keys.write")}</label>
  <//>`;
}
