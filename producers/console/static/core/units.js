// Units as rows of a list, and what was drawn from one, read when it is asked for.

import { html, useState } from "../vendor/htm-preact.js";
import { getUnit } from "./api.js";
import { Moment, Named, Said } from "./format.js";
import { linkTo, useLoad } from "./hooks.js";
import { Chip, Loaded } from "./parts.js";
import { t } from "./texts.js";

export const UnitCard = ({ bank, unit }) => html`<a class="card unit" href=${linkTo("unit", { bank, unit_id: unit.unit_id })}>
  <span class="unit-text"><${Said} text=${unit.text} most=${320} /></span>
  <span class="meta">
    <${Chip}>${unit.kind}<//>
    <span>${t(`origin.${unit.origin}`)}</span>
    ${(unit.name || unit.role) && html`<span><${Named} name=${unit.name || unit.role} /></span>`}
    <${Moment} at=${unit.occurred_at} />
    ${unit.cut && html`<span>${t("units.cut")}</span>`}
  </span>
</a>`;

/** A unit beside another, by the beginning of its text. */
export const Beside = ({ bank, id, text, kind }) => html`<a class="card unit" href=${linkTo("unit", { bank, unit_id: id })}>
  <span class="unit-text"><${Said} text=${text} most=${200} /></span>
  ${kind && html`<span class="meta"><${Chip}>${kind}<//></span>`}
</a>`;

/** What was drawn from a unit: asked for when it is opened. */
export function Drawn({ bank, id }) {
  const [open, setOpen] = useState(false);
  return html`<details class="drawn" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${t("unit.facts")}</summary>
    ${open && html`<${Facts} bank=${bank} id=${id} />`}
  </details>`;
}

function Facts({ bank, id }) {
  const unit = useLoad(() => getUnit(bank, id), [bank, id]);
  return html`<${Loaded} of=${unit}>${({ facts }) =>
    facts.length
      ? facts.map((one) => html`<${Beside} bank=${bank} id=${one.unit_id} text=${one.text} />`)
      : html`<p class="quiet">${t("unit.nofacts")}</p>`}<//>`;
}
