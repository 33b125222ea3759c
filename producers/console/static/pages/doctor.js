// What `afterturn doctor` finds from the process that answers, and what to do about it.

import { html } from "../vendor/htm-preact.js";
import { checkInstallation } from "../core/api.js";
import { Said } from "../core/format.js";
import { useLoad } from "../core/hooks.js";
import { Chip, Loaded } from "../core/parts.js";
import { t } from "../core/texts.js";
import { OperatePage } from "./operate.js";

const KINDS = { ok: "good", warn: "warn", fail: "status-dead" };
const ORDER = ["fail", "warn", "ok"];

export function Doctor() {
  const found = useLoad(checkInstallation, []);
  return html`<${OperatePage} now="doctor" beside=${html`<button type="button" onClick=${found.reload}>${t("doctor.again")}</button>`}>
    <${Loaded} of=${found}>${({ healthy, process, findings }) => html`
      <p class=${healthy ? "toast" : "failure"} role="status">${t(healthy ? "doctor.healthy" : "doctor.fails", { process })}</p>
      <ul class="findings framed">
        ${[...findings].sort((one, other) => ORDER.indexOf(one.verdict) - ORDER.indexOf(other.verdict)).map((one) => html`<li>
          <${Chip} kind=${KINDS[one.verdict]}>${t(`doctor.${one.verdict}`)}<//>
          <p class="strong">${one.subject}</p>
          <div>
            <p><${Said} text=${one.seen} most=${400} /></p>
            ${one.remedy && html`<p class="remedy"><span class="quiet">${t("doctor.remedy")}</span> <${Said} text=${one.remedy} most=${400} /></p>`}
          </div>
        </li>`)}
      </ul>`}<//>
  <//>`;
}
