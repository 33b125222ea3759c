// A person: the facts that hold, each with its sources and what it replaced.

import { html } from "../vendor/htm-preact.js";
import { getProfile } from "../core/api.js";
import { Moment, Named, Said, number } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Chip, Empty, Gate, Page, Paged } from "../core/parts.js";
import { t } from "../core/texts.js";

const PAGE = 50;

export function Person({ query: { user_id, name, bank } }) {
  return html`<${Page} title=${html`<${Named} name=${user_id || name} />`}
    crumbs=${[{ text: t("people.title"), to: linkTo("people") }]}>
    <${Gate}><${Profile} asked=${user_id ? { user_id } : { name, bank }} bank=${bank} /><//>
  <//>`;
}

const Profile = ({ asked, bank }) => html`<${Paged}
  load=${(cursor) => getProfile({ ...asked, history: true, limit: PAGE, cursor })}
  keys=${[JSON.stringify(asked)]}
  rows=${(found) => (found.facts.length ? [html`<${Known} found=${found} bank=${bank || found.facts[0].bank} />`] : [])}
  empty=${html`<${Empty} title=${t("person.nofacts")} help=${t("person.nofacts.help")} />`}
/>`;

const Known = ({ found, bank }) => html`
  ${found.names.length > 0 &&
  html`<p class="chips spaced">${t("person.names")}: ${found.names.map((one) => html`<${Chip}><${Named} name=${one} /><//> `)}</p>`}
  <h2>${t("person.facts")}</h2>
  <div class="framed rows">${found.facts.map((fact) => html`<${Fact} fact=${fact} />`)}</div>
  ${found.beside.length > 0 &&
  html`<h2 class="spaced">${t("person.beside")}</h2>
    <p class="chips">${found.beside.map(
      (one) => html`<a class="chip" href=${linkTo("around", { bank, name: one.name })}><${Named} name=${one.name} /> · ${t("person.units", { n: number(one.units) })}</a> `,
    )}</p>
    <p class="spaced"><a class="button" href=${linkTo("around", { bank, name: found.names[0] })}>${t("around.link")}</a></p>`}
`;

const Fact = ({ fact }) => html`<article>
  <p class="unit-text"><${Said} text=${fact.text} most=${1000} /></p>
  <p class="meta">
    <${Chip} kind="accent">${fact.key}<//>
    <span>${t("person.since")} <${Moment} at=${fact.since} /></span>
    ${fact.until && html`<span>${t("person.until")} <${Moment} at=${fact.until} /></span>`}
    ${fact.stated > 1 && html`<span>${t("person.stated", { n: number(fact.stated) })}</span>`}
    <a href=${linkTo("unit", { bank: fact.bank, unit_id: fact.unit_id })}>${t("unit.title")}</a>
    ${fact.sources.map((source) => html`<a href=${linkTo("unit", { bank: fact.bank, unit_id: source })}>${t("unit.sources")}</a>`)}
  </p>
  ${fact.history.length > 0 &&
  html`<details>
    <summary>${t("person.before")} (${number(fact.history.length)})</summary>
    <ol class="history">
      ${fact.history.map((one) => html`<li><${Said} text=${one.text} most=${400} />
        <span class="quiet"> <${Moment} at=${one.since} /> – <${Moment} at=${one.until} /></span></li>`)}
    </ol>
  </details>`}
</article>`;
