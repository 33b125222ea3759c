// Generations of vectors: the sentence model changed while the service runs, one step after the other.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { buildGeneration, compareGenerations, dropGeneration, listGenerations, rollBackGeneration, switchGeneration } from "../core/api.js";
import { Moment, Named, number, share } from "../core/format.js";
import { useLoad } from "../core/hooks.js";
import { Change, Chip, Empty, Loaded, Table } from "../core/parts.js";
import { t } from "../core/texts.js";
import { OperatePage } from "./operate.js";

const KINDS = { live: "good", building: "warn", retired: "", dropping: "" };
const WATCH_MS = 3000;
const QUESTIONS = 20;
const MOVING = new Set(["building", "dropping"]);

export function Vectors() {
  const found = useLoad(listGenerations, []);
  const [open, setOpen] = useState(null);
  const [said, say] = useState("");
  const moves = (found.value?.generations || []).some((one) => MOVING.has(one.state));
  useEffect(() => {
    if (!moves) return undefined;
    const timer = setInterval(() => document.hidden || found.reload(), WATCH_MS);
    return () => clearInterval(timer);
  }, [moves, found.reload]);
  const done = (text) => {
    say(text);
    found.reload();
  };
  return html`<${OperatePage} now="vectors">
    ${said && html`<p class="toast" role="status">${said}</p>`}
    <${Loaded} of=${found}>${(list) => html`<${Generations} list=${list} setOpen=${setOpen} />`}<//>
    ${open && html`<${Step} ...${open} list=${found.value} close=${() => setOpen(null)} done=${done} />`}
  <//>`;
}

const stateOf = (list, state) => list.generations.find((one) => one.state === state);

function Generations({ list, setOpen }) {
  const building = stateOf(list, "building");
  const known = list.generations.some((one) => one.model === list.model && one.state !== "dropping");
  const button = (step, more = {}) => html`<button type="button" class=${more.kind || ""} onClick=${() => setOpen({ step, ...more })}>${t(`vectors.${step}`)}</button>`;
  const drop = (one) =>
    MOVING.has(one.state) || one.state === "retired"
      ? one.state !== "dropping" && html`<button type="button" class="small danger" onClick=${() => setOpen({ step: "drop", generation: one })}>${t("vectors.drop")}</button>`
      : html`<span class="quiet">–</span>`;
  const columns = [t("vectors.model"), t("vectors.dimension"), t("keys.state"), t("vectors.built"), t("operate.since"), t("work.do")];
  return html`
    <p class="note">${list.model ? html`${t("vectors.named")} <strong><${Named} name=${list.model} /></strong>` : t("vectors.unnamed")}</p>
    <div class="actions start spaced">
      ${list.model && !known && button("build", { kind: "primary" })}
      ${building && button("switch", { kind: building.complete_at ? "primary" : "" })}
      ${stateOf(list, "retired") && button("rollback")}
    </div>
    ${list.generations.length === 0
      ? html`<${Empty} title=${t("vectors.none")} help=${t("vectors.none.help")} />`
      : html`<div class="framed"><${Table} label=${t("operate.vectors")} columns=${columns} rows=${list.generations.map((one) => [
          html`<span><strong><${Named} name=${one.model} /></strong> <span class="quiet block">${t("vectors.number", { n: one.generation })}</span></span>`,
          number(one.dimension),
          html`<${Chip} kind=${KINDS[one.state]}>${t(`vectors.state.${one.state}`)}<//>`,
          html`<${Built} of=${one} />`,
          html`<${Moment} at=${one.since} />`,
          drop(one),
        ])} /></div>`}
    ${building && html`<${Comparison} key=${building.generation} generation=${building.generation} />`}
    <${Workers} list=${list} />`;
}

/** How far a pass over all stored texts is. */
function Built({ of: { state, complete_at, share: done, vectors } }) {
  if (!MOVING.has(state)) return complete_at ? html`<span class="nowrap">${t("vectors.whole")}</span>` : t("vectors.lacking");
  return html`<span>${t(`vectors.${state}.how`, { share: share(done), n: number(vectors) })}
    <progress class="block" value=${done} max="1" aria-label=${t("vectors.built")}></progress></span>`;
}

function Workers({ list: { workers, model } }) {
  if (workers.length === 0) return null;
  return html`<section class="spaced">
    <h2>${t("vectors.workers")}</h2>
    <p class="quiet">${t("vectors.workers.help")}</p>
    <div class="framed spaced"><${Table} label=${t("vectors.workers")} columns=${[t("job.worker"), t("vectors.model")]} rows=${workers.map((one) => [
      html`<code class="id">${one.worker}</code>`,
      html`<span>${one.model ? html`<${Named} name=${one.model} />` : t("vectors.unsaid")} ${one.model && one.model !== model && html`<${Chip} kind="warn">${t("vectors.another")}<//>`}</span>`,
    ])} /></div>
  </section>`;
}

/** Ask every bank some questions, page by page, and add the pages up. */
function Comparison({ generation }) {
  const [state, set] = useState({});
  const compare = async () => {
    let told = null;
    let cursor;
    set({ busy: true });
    try {
      do {
        const page = await compareGenerations({ generation, questions: QUESTIONS, cursor });
        told = told ? addUp(told, page) : page;
        ({ cursor } = page);
        set({ told, busy: Boolean(cursor) });
      } while (cursor);
    } catch (error) {
      set({ told, error });
    }
  };
  const part = (some, all) => (all ? share(some / all) : "–");
  return html`<section class="card spaced" aria-labelledby="comparison">
    <h2 id="comparison">${t("vectors.compare")}</h2>
    <p class="quiet">${t("vectors.compare.help")}</p>
    <div class="actions start"><button type="button" disabled=${state.busy} onClick=${compare}>${t("vectors.compare.do")}</button></div>
    <div role="status">
      ${state.told && html`<dl class="figures spaced">
        <div><dt>${t("vectors.questions")}</dt><dd>${number(state.told.questions)}</dd></div>
        <div><dt>${t("vectors.banks")}</dt><dd>${number(state.told.banks)}</dd></div>
        <div><dt>${t("vectors.overlap")}</dt><dd>${part(state.told.shared, state.told.nearest)}</dd></div>
        <div><dt>${t("vectors.recall")}</dt><dd>${part(state.told.found, state.told.exact)}</dd></div>
      </dl>`}
      ${state.error && html`<p class="note warn">${state.error.message}</p>`}
    </div>
  </section>`;
}

const COUNTS = ["questions", "nearest", "shared", "exact", "found", "banks"];
const addUp = (told, page) => ({ ...told, ...Object.fromEntries(COUNTS.map((name) => [name, told[name] + page[name]])) });

/** A step of a change of the model, told before it is made. */
function Step({ step, generation, list, close, done }) {
  const building = stateOf(list, "building");
  const incomplete = step === "switch" && !building?.complete_at;
  const [force, setForce] = useState(false);
  const act = async () => {
    if (step === "build") await buildGeneration();
    else if (step === "switch") await switchGeneration({ force });
    else if (step === "rollback") await rollBackGeneration();
    else await dropGeneration(generation.generation);
    return t(`vectors.${step}.done`);
  };
  const model = step === "drop" ? generation.model : step === "switch" ? building.model : step === "rollback" ? stateOf(list, "retired").model : list.model;
  return html`<${Change} title=${t(`vectors.${step}`)} verb=${t(`vectors.${step}.do`)} act=${act} close=${close} done=${done}
    danger=${step === "drop"} blocked=${incomplete && !force}>
    <p class="strong"><${Named} name=${model} /></p>
    <p>${t(`vectors.${step}.will`)}</p>
    ${incomplete && html`<label class="check"><input type="checkbox" checked=${force} onChange=${(event) => setForce(event.target.checked)} />${t("vectors.force")}</label>`}
  <//>`;
}
