// The field of a bank: what is typed, or the bank that is there.

import { html, useState } from "../vendor/htm-preact.js";
import { listBanks } from "./api.js";
import { useLoad } from "./hooks.js";
import { t } from "./texts.js";

const BANKS = 200;

/** The chosen bank: { bank, names, choose }. Until one is chosen it is `default`, or the first where that is not there. */
export function useBank(given) {
  const banks = useLoad(() => listBanks({ limit: BANKS }), []);
  const [chosen, choose] = useState(given);
  const names = (banks.value?.banks || []).map((one) => one.bank);
  const first = names.length === 0 || names.includes("default") ? "default" : names[0];
  return { bank: chosen ?? first, names, choose };
}

export const BankField = ({ of, disabled }) => html`<div>
  <label for="bank">${t("recall.bank")}</label>
  <input id="bank" list="banks" value=${of.bank} required disabled=${disabled} onInput=${(event) => of.choose(event.target.value)} />
  <datalist id="banks">${of.names.map((name) => html`<option value=${name}></option>`)}</datalist>
</div>`;
