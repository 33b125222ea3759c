// Erase for good: counted first, then done, with a receipt that can be read again.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { createErasure, getErasure, previewErasure } from "../core/api.js";
import { BankField, useBank } from "../core/banks.js";
import { Moment, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Copy, Failure, Loaded } from "../core/parts.js";
import { t } from "../core/texts.js";
import { OperatePage } from "./operate.js";

const NAMED_BY = { session: "session_id", user: "user_id", document: "doc_id", unit: "unit_id", memory: "memory_id", directive: "directive_id", bank: null };
const WATCH_MS = 1000;

export function Erasure({ who, query: { id } }) {
  return html`<${OperatePage} now="erasure">
    ${id ? html`<${Receipt} id=${id} />` : html`<${Ask} who=${who} />`}
  <//>`;
}

/** The body of an erasure of what the fields name. */
function bodyOf({ kind, name }, bank) {
  const body = { kind };
  if (kind !== "user") body.bank = bank.trim();
  if (NAMED_BY[kind]) body[NAMED_BY[kind]] = name.trim();
  return body;
}

function Ask({ who }) {
  const [given, give] = useState({ kind: "session", name: "" });
  const of = useBank();
  const choose = (bank) => {
    of.choose(bank);
    set({});
  };
  const [state, set] = useState({});
  const [sure, setSure] = useState(false);
  const [receipt, setReceipt] = useState("");
  const put = (name) => (event) => {
    give({ ...given, [name]: event.target.value });
    set({});
  };
  const count = async (event) => {
    event.preventDefault();
    set({ busy: true });
    try {
      set({ found: await previewErasure(bodyOf(given, of.bank)) });
    } catch (error) {
      set({ error });
    }
  };
  const erase = async () => (await createErasure(bodyOf(given, of.bank))).erasure_id;
  const look = (event) => {
    event.preventDefault();
    location.hash = linkTo("erasure", { id: receipt.trim() });
  };
  return html`<form class="card" onSubmit=${count}>
      <div class="fields">
        <div><label for="kind">${t("erasure.kind")}</label>
          <select id="kind" value=${given.kind} onChange=${put("kind")}>${Object.keys(NAMED_BY).map((one) => html`<option value=${one}>${t(`erasure.kind.${one}`)}</option>`)}</select></div>
        ${given.kind !== "user" && html`<${BankField} of=${{ ...of, choose }} />`}
        ${NAMED_BY[given.kind] && html`<div><label for="name">${t(`erasure.name.${given.kind}`)}</label><input id="name" value=${given.name} onInput=${put("name")} required /></div>`}
      </div>
      <div class="actions start">
        <button type="submit" class="primary" disabled=${state.busy}>${t("erasure.count")}</button>
      </div>
    </form>
    ${!who.write && html`<p class="note">${t("erasure.reads")}</p>`}
    ${state.error && html`<${Failure} error=${state.error} />`}
    ${state.found && html`<section class="card" aria-labelledby="would">
      <h2 id="would">${t("erasure.would")}</h2>
      ${!state.found.complete && html`<p class="note">${t("erasure.more")}</p>`}
      <${Taken} of=${state.found} sessions=${state.found.gateway_sessions} elsewhere=${state.found.elsewhere} />
      <div class="actions start"><button type="button" class="danger" onClick=${() => setSure(true)}>${t("erasure.erase")}</button></div>
    </section>`}
    ${sure && html`<${Change} title=${t("erasure.sure")} verb=${t("erasure.erase")} act=${erase} close=${() => setSure(false)}
      done=${(made) => (location.hash = linkTo("erasure", { id: made }))} danger>
      <p class="strong">${t(`erasure.kind.${given.kind}`)} <${Said} text=${given.name || of.bank} most=${120} /></p>
      <p>${t("erasure.will")}</p>
    <//>`}
    <form class="card spaced" onSubmit=${look}>
      <h2>${t("erasure.receipt")}</h2>
      <div class="row"><input aria-label=${t("erasure.receipt.id")} placeholder=${t("erasure.receipt.id")} value=${receipt} onInput=${(event) => setReceipt(event.target.value)} required />
        <button type="submit">${t("operate.show")}</button></div>
    </form>`;
}

/** What is taken, by kind, and what stays elsewhere. */
function Taken({ of, sessions, elsewhere }) {
  const counts = Object.entries(of.counts);
  return html`<dl class="figures">
      ${counts.length === 0 && html`<div><dt>${t("erasure.nothing")}</dt><dd>0</dd></div>`}
      ${counts.map(([kind, n]) => html`<div><dt>${kind.replaceAll("_", " ")}</dt><dd>${number(n)}</dd></div>`)}
    </dl>
    ${[...Object.entries(sessions).map(([name, n]) => t("erasure.told", { name, n: number(n) })), ...of.stays].map((one) => html`<p class="note"><${Said} text=${one} most=${300} /></p>`)}
    <details><summary>${t("erasure.elsewhere")}</summary><ul>${elsewhere.map((one) => html`<li>${one}</li>`)}</ul></details>`;
}

function Receipt({ id }) {
  const receipt = useLoad(() => getErasure(id), [id]);
  const runs = receipt.value?.status === "running";
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(() => document.hidden || receipt.reload(), WATCH_MS);
    return () => clearInterval(timer);
  }, [runs, receipt.reload]);
  return html`<${Loaded} of=${receipt}>${(found) => html`<section class="card" aria-labelledby="receipt">
    <h2 id="receipt">${t("erasure.receipt")}</h2>
    <p class="meta">
      <${Chip} kind=${runs ? "warn" : "good"}>${t(`erasure.${found.status}`)}<//>
      <span>${t(`erasure.kind.${found.kind}`)}</span> <${Moment} at=${found.finished_at || found.requested_at} />
    </p>
    <p class="spaced"><code class="id">${found.erasure_id}</code> <${Copy} text=${found.erasure_id} /></p>
    <${Taken} of=${found} sessions=${found.unreached.gateway_sessions} elsewhere=${found.unreached.elsewhere} />
    <div class="actions start"><a class="button" href=${linkTo("erasure")}>${t("erasure.another")}</a></div>
  </section>`}<//>`;
}
