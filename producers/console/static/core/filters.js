// Filters of a list: as fields, and those in force as chips. They stand in the address, and also when nothing matches.

import { html } from "../vendor/htm-preact.js";
import { Said } from "./format.js";
import { linkTo } from "./hooks.js";
import { t } from "./texts.js";

/** Return what the address sets of these filters. */
export const readFilter = (query, names) =>
  Object.fromEntries(names.filter((name) => query[name]).map((name) => [name, query[name]]));

/**
 * A form of filters. `fields`: for each its `name`, `label`, and either `options` ([value, text]) or `input`, the
 * attributes of a text field. `drop(filter, name)` returns the filter without one, where others go with it.
 */
export function Filters({ page, label, filter, fields, drop = without, children }) {
  const put = (name, value) => (location.hash = linkTo(page, { ...filter, [name]: value }));
  const labels = Object.fromEntries(fields.map((one) => [one.name, one.label]));
  const texts = Object.fromEntries(fields.map((one) => [one.name, Object.fromEntries(one.options || [])]));
  const set = Object.entries(filter);
  return html`<form class="card filters" aria-label=${label} onSubmit=${(event) => event.preventDefault()}>
    <div class="fields dense">
      ${fields.map((one) => html`<div>
        <label for=${one.name}>${one.label}</label>
        ${one.options ? html`<${Choice} ...${one} now=${filter[one.name]} put=${put} />` : html`<${Typed} ...${one} now=${filter[one.name]} put=${put} />`}
      </div>`)}
      ${children}
    </div>
    ${set.length > 0 &&
    html`<p class="chips">
      ${set.map(([name, value]) => html`<a class="chip accent" href=${linkTo(page, drop(filter, name))}
        aria-label=${t("filter.remove", { name: labels[name] })}>${labels[name]}: <${Said} text=${texts[name][value] || value} most=${60} /> ×</a> `)}
    </p>`}
  </form>`;
}

const Choice = ({ name, options, now, put }) => html`<select id=${name} value=${now || ""} onChange=${(event) => put(name, event.target.value)}>
  <option value="">${t("filter.any")}</option>
  ${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
</select>`;

// A field keeps what is being typed when the page is drawn anew, and begins anew when its filter has changed.
const Typed = ({ name, input, now, put }) =>
  html`<input id=${name} key=${now} defaultValue=${now || ""} onChange=${(event) => put(name, event.target.value.trim())} ...${input} />`;

const without = (filter, name) => ({ ...filter, [name]: "" });
