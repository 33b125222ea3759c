// Two answers side by side: of two questions, or of one question under two settings.

import { html } from "../vendor/htm-preact.js";
import { Said, ms, number, score } from "./format.js";
import { linkTo } from "./hooks.js";
import { Chip } from "./parts.js";
import { SETTINGS, labelOf } from "./recalls.js";
import { t } from "./texts.js";

const SHOWN = 300;

/** Both answers, each an `answer` and what was `asked`; a result tells its place in the other. */
export function Comparison({ first, second }) {
  const common = second.answer.results.filter((one) => placeOf(one, first.answer)).length;
  return html`<section aria-labelledby="comparison">
    <h2 id="comparison">${t("compare.title")}</h2>
    <p class="quiet">${t("compare.common", { n: number(common) })}</p>
    <div class="columns">
      <${Side} name=${t("compare.first")} one=${first} other=${second} />
      <${Side} name=${t("compare.second")} one=${second} other=${first} />
    </div>
  </section>`;
}

const placeOf = (result, { results }) => results.findIndex(({ unit_id }) => unit_id === result.unit_id) + 1;

function Side({ name, one: { asked, answer }, other }) {
  const differs = ["bank", ...SETTINGS].filter((setting) => settingOf(asked, setting) !== settingOf(other.asked, setting));
  return html`<section class="card" aria-label=${name}>
    <h3>${name}: <${Said} text=${asked.question} most=${SHOWN} /></h3>
    <p class="chips">
      ${differs.map((setting) => html`<${Chip} kind="accent">${labelOf(setting)}: <${Said} text=${settingOf(asked, setting) || "–"} most=${60} /><//> `)}
    </p>
    <p class="quiet">${t("compare.figures", { n: number(answer.results.length), tokens: number(answer.tokens), ms: ms(answer.took_ms) })}</p>
    <ol class="compared">
      ${answer.results.map((result, place) => html`<li key=${result.unit_id}>
        <a href=${linkTo("unit", { bank: result.bank || asked.bank, unit_id: result.unit_id })}><${Said} text=${result.text} most=${SHOWN} /></a>
        <p class="meta"><span>${t("recall.score", { n: score(result.score) })}</span> <${Moved} here=${place + 1} there=${placeOf(result, other.answer)} /></p>
      </li>`)}
    </ol>
  </section>`;
}

const settingOf = ({ bank, chosen }, name) => (name === "bank" ? bank : chosen[name] || "");

function Moved({ here, there }) {
  if (!there) return html`<${Chip} kind="warn">${t("compare.only")}<//>`;
  if (here === there) return html`<${Chip}>${t("compare.same")}<//>`;
  return html`<${Chip} kind="accent">${t("compare.there", { n: number(there) })}<//>`;
}
