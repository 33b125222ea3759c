// Around one entity: what occurs together with it, as a graph and as the same in a list.

import "../vendor/d3-dispatch.js";
import "../vendor/d3-quadtree.js";
import "../vendor/d3-timer.js";
import "../vendor/d3-force.js";
import { html } from "../vendor/htm-preact.js";
import { getNeighbourhood } from "../core/api.js";
import { Named, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Chip, Empty, Gate, Loaded, Page, Table, bankCrumb } from "../core/parts.js";
import { t } from "../core/texts.js";

// The libraries are scripts of the old kind: they leave their functions here.
const { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } = globalThis.d3;
const MOST = 300;
const FEW = 40;
const STEPS = 250;
const WIDTH = 900;
const HEIGHT = 560;
const MARGIN = 60;

export function Around({ query: { bank = "default", name, entity_id, most = String(FEW) } }) {
  const asked = entity_id ? { bank, entity_id } : { bank, name };
  return html`<${Page} title=${t("around.title")} lead=${t("around.lead")} crumbs=${[{ text: t("people.title"), to: linkTo("people") }, bankCrumb(bank)]}>
    <${Gate}><${Neighbours} asked=${asked} most=${Math.min(MOST, Number(most) || FEW)} /><//>
  <//>`;
}

function Neighbours({ asked, most }) {
  const around = useLoad(() => getNeighbourhood({ ...asked, limit: most }), [JSON.stringify(asked), most]);
  if (around.error?.status === 404) return html`<${Empty} title=${t("around.none")} help=${t("around.none.help")} />`;
  return html`<${Loaded} of=${around}>${(found) => {
    const [middle, ...others] = found.entities;
    const together = new Map(found.cooccurrences.flatMap((pair) => withMiddle(pair, middle.entity_id)));
    return html`<div class="graph framed" ref=${showMiddle}><${Graph} found=${found} bank=${asked.bank} /></div>
      <p class="quiet spaced">${t("around.shown", { n: number(found.entities.length) })}
        ${!found.whole && most < MOST && html` <a href=${linkTo("around", { ...asked, most: MOST })}>${t("around.more")}</a>`}</p>
      <h2><${Named} name=${middle.name} /></h2>
      <div class="framed"><${Table} label=${t("around.list")} columns=${[t("around.entity"), t("around.together"), t("around.mentions"), t("person.facts")]}
        rows=${others.map((one) => [
          html`<a class="strong" href=${linkTo("around", { bank: asked.bank, entity_id: one.entity_id })}><${Named} name=${one.name} /></a>`,
          number(together.get(one.entity_id) || 0),
          number(one.mentions),
          html`<a href=${linkTo("person", { bank: asked.bank, name: one.name })}>${t("operate.show")}</a>`,
        ])} /></div>`;
  }}<//>`;
}

/** Scroll a graph that is wider than the window to its middle. */
function showMiddle(box) {
  if (box) box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
}

/** A pair with the entity in the middle, as [the other, how often]; nothing for another pair. */
function withMiddle(pair, middle) {
  if (pair.entity_id_1 === middle) return [[pair.entity_id_2, pair.count]];
  return pair.entity_id_2 === middle ? [[pair.entity_id_1, pair.count]] : [];
}

/** The graph. Each entity is a link, in the order of the list below, so that it is reached by keyboard. */
function Graph({ found, bank }) {
  const { nodes, links } = place(found);
  const named = nodes.length <= FEW ? nodes.length : FEW;
  return html`<svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label=${t("around.graph", { n: number(nodes.length) })}>
    ${links.map(({ source, target, share }) => html`<line class="edge" x1=${source.x} y1=${source.y} x2=${target.x} y2=${target.y}
      stroke-width=${0.75 + 4 * share} />`)}
    ${nodes.map((node, rank) => html`<a href=${linkTo("around", { bank, entity_id: node.entity_id })}
      class=${`node ${rank === 0 ? "middle" : ""} ${rank < named ? "" : "unnamed"}`} aria-label=${`${node.name}, ${t("around.mentioned", { n: number(node.mentions) })}`}>
      <circle cx=${node.x} cy=${node.y} r=${node.radius} />
      <text x=${node.x} y=${node.y + node.radius + 14} text-anchor="middle">${cut(node.name)}</text>
    </a>`)}
  </svg>`;
}

const cut = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);

/** Place the entities: those that occur together lie near each other. The same answer gives the same places. */
function place({ entities, cooccurrences }) {
  const most = Math.max(1, ...entities.map((one) => one.mentions));
  const nodes = entities.map((one, rank) => ({ ...one, radius: 5 + 15 * Math.sqrt(one.mentions / most) + (rank === 0 ? 3 : 0) }));
  const strongest = Math.max(1, ...cooccurrences.map((one) => one.count));
  const links = cooccurrences.map((one) => ({ source: one.entity_id_1, target: one.entity_id_2, share: one.count / strongest }));
  const simulation = forceSimulation(nodes)
    .force("link", forceLink(links).id((one) => one.entity_id).distance(90).strength(({ share }) => 0.05 + 0.4 * share))
    .force("charge", forceManyBody().strength(-320))
    .force("collide", forceCollide((one) => one.radius + 18))
    .force("x", forceX(0).strength(0.05))
    .force("y", forceY(0).strength(0.09))
    .stop();
  simulation.tick(STEPS);
  fit(nodes, "x", WIDTH);
  fit(nodes, "y", HEIGHT);
  return { nodes, links };
}

/** Move and stretch one direction so that all of it is in the picture. */
function fit(nodes, axis, length) {
  const values = nodes.map((one) => one[axis]);
  const low = Math.min(...values);
  const span = Math.max(...values) - low;
  for (const one of nodes) one[axis] = span ? MARGIN + ((length - 2 * MARGIN) * (one[axis] - low)) / span : length / 2;
}
