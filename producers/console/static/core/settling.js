// What a person may find out about deliveries at the gateway, and what happens next to them.

import { html } from "../vendor/htm-preact.js";
import { t } from "./texts.js";

/** Findings, each with the next step. */
export const FINDINGS = ["delivered/flush", "delivered/done", "not-delivered/retry", "not-delivered/skip"];

/** A finding as the API takes it. */
export function asFound(finding) {
  const [found, then] = finding.split("/");
  return { found, then };
}

export const Findings = ({ chosen, choose }) => html`<fieldset>
  <legend>${t("settle.found")}</legend>
  ${FINDINGS.map((one) => html`<label class="check wide"
    ><input type="radio" name="finding" checked=${chosen === one} onChange=${() => choose(one)} />${t(`settle.${one}`)}</label
  >`)}
</fieldset>`;
