// A document: what it is, and its chunks in the order of their ids.

import { html } from "../vendor/htm-preact.js";
import { getDocument, listUnits } from "../core/api.js";
import { Moment, Named, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Copy, Empty, Gate, Loaded, Page, Paged, bankCrumb } from "../core/parts.js";
import { t } from "../core/texts.js";
import { UnitCard } from "../core/units.js";

// A listed text has 2,000 characters at most: so a page stays below 200 kB.
const PAGE = 20;

export function Document({ query: { bank = "default", doc_id } }) {
  return html`<${Page} title=${t("document.title")} crumbs=${[
    { text: t("nav.memory"), to: linkTo("memory") },
    bankCrumb(bank),
    { text: t("bank.documents"), to: linkTo("bank", { bank, view: "documents" }) },
  ]}>
    <${Gate}><${ShownDocument} bank=${bank} id=${doc_id} /><//>
  <//>`;
}

function ShownDocument({ bank, id }) {
  const found = useLoad(() => getDocument(bank, id), [bank, id]);
  return html`<${Loaded} of=${found}>${(document) => html`
    <section class="card">
      <h2><${Named} name=${document.title || t("documents.untitled")} /></h2>
      <dl>
        <div><dt>${t("unit.id")}</dt><dd><code class="id">${document.doc_id}</code> <${Copy} text=${document.doc_id} /></dd></div>
        <div><dt>${t("documents.units")}</dt><dd>${number(document.units)}</dd></div>
        ${document.occurred_at && html`<div><dt>${t("unit.happened")}</dt><dd><${Moment} at=${document.occurred_at} /></dd></div>`}
        <div><dt>${t("documents.updated")}</dt><dd><${Moment} at=${document.updated_at} /></dd></div>
        ${Object.keys(document.metadata).length > 0 &&
        html`<div><dt>${t("unit.metadata")}</dt><dd><${Said} text=${JSON.stringify(document.metadata)} most=${2000} /></dd></div>`}
      </dl>
    </section>
    <h2>${t("document.chunks")}</h2>
    <${Paged} load=${(cursor) => listUnits({ bank, doc_id: id, limit: PAGE, cursor })} keys=${[bank, id]}
      rows=${({ units }) => units.map((one) => html`<${UnitCard} bank=${bank} unit=${one} />`)}
      empty=${html`<${Empty} title=${t("units.empty")} help=${t("document.none.help")} />`} />
  `}<//>`;
}
