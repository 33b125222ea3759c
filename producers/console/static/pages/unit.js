// A unit: what it says, where that comes from, what was drawn from it, its versions; corrected, pinned, forgotten.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { changeUnit, eraseUnit, forgetUnit, getUnit, setPin } from "../core/api.js";
import { Moment, Named, Said, asLocal, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Change, Chip, Copy, Empty, Gate, Loaded, Page, bankCrumb } from "../core/parts.js";
import { t } from "../core/texts.js";
import { Beside } from "../core/units.js";

const LONGEST = 20000;

export function Unit({ who, query: { bank = "default", unit_id } }) {
  return html`<${Page}
    title=${t("unit.title")}
    crumbs=${[{ text: t("nav.memory"), to: linkTo("memory") }, bankCrumb(bank)]}
  >
    <${Gate}><${ShownUnit} key=${unit_id} who=${who} bank=${bank} id=${unit_id} /><//>
  <//>`;
}

function ShownUnit({ who, bank, id }) {
  const unit = useLoad(() => getUnit(bank, id), [bank, id]);
  const [open, setOpen] = useState(null);
  const [said, say] = useState(null);
  if (said?.gone) return html`<${Empty} title=${t("forget.gone")} help=${said.text} />`;
  const done = (text, gone = false) => {
    say({ text, gone });
    if (!gone) unit.reload();
  };
  const shared = { bank, close: () => setOpen(null), done };
  return html`<${Loaded} of=${unit}>${(found) => html`
    ${said && html`<p class="toast" role="status">${said.text}</p>`}
    <section class="card">
      <p class="unit-whole"><${Said} text=${found.text} most=${LONGEST} /></p>
      <p class="meta">
        <${Chip}>${found.kind}<//>
        ${found.pinned && html`<${Chip} kind="accent">${t("unit.pinned")}<//>`}
        <span>${t("unit.version", { n: found.version })}</span>
      </p>
      ${found.origin === "reflection" && html`<p class="quiet">${t("unit.reflection")}</p>`}
      ${who.write && found.origin !== "reflection" &&
      html`<div class="actions start">
        <button type="button" onClick=${() => setOpen("correct")}>${t("unit.correct")}</button>
        <button type="button" onClick=${() => setOpen("pin")}>${t(found.pinned ? "unit.unpin" : "unit.pin")}</button>
        <button type="button" onClick=${() => setOpen("end")}>${t("unit.end")}</button>
        <button type="button" class="danger" onClick=${() => setOpen("forget")}>${t("unit.forget")}</button>
      </div>`}
    </section>
    ${open === "correct" && html`<${Correct} ...${shared} unit=${found} />`}
    ${open === "pin" && html`<${Pin} ...${shared} unit=${found} />`}
    ${open === "end" && html`<${End} ...${shared} unit=${found} />`}
    ${open === "forget" && html`<${Forget} ...${shared} unit=${found} />`}
    <div class="columns">
      <section>
        <h2>${t("unit.about")}</h2>
        <dl>${[...describe(bank, found)].map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      </section>
      <section>
        <h2>${t("unit.facts")}</h2>
        ${found.facts.length === 0 && html`<p class="quiet">${t("unit.nofacts")}</p>`}
        ${found.facts.map((one) => html`<${Beside} bank=${bank} id=${one.unit_id} text=${one.text} />`)}
        ${found.sources.length > 0 && html`<h2>${t("unit.sources")}</h2>`}
        ${found.sources.map((source) => html`<${Beside} bank=${bank} id=${source} text=${source} />`)}
        ${found.former.length > 0 && html`<h2>${t("unit.former")}</h2>`}
        ${found.former.map((one) => html`<div class="card plain">
          <p class="meta"><${Chip}>${t("unit.version", { n: one.version })}<//><${Moment} at=${one.recorded_at} /></p>
          <p><${Said} text=${one.text} most=${2000} /></p>
        </div>`)}
        ${found.links.length > 0 && html`<h2>${t("unit.links")}</h2>`}
        ${found.links.map((one) => html`<${Beside} bank=${bank} id=${one.unit_id} text=${one.excerpt} kind=${one.kind} />`)}
      </section>
    </div>
  `}<//>`;
}

function* describe(bank, unit) {
  yield [t("unit.id"), html`<code class="id">${unit.unit_id}</code> <${Copy} text=${unit.unit_id} />`];
  yield [t("unit.origin"), t(`origin.${unit.origin}`)];
  if (unit.name || unit.role)
    yield [t("unit.speaker"), html`<${Named} name=${[unit.name, unit.role].filter(Boolean).join(" · ")} />`];
  if (unit.session_id)
    yield [
      t("sessions.session"),
      html`<a href=${linkTo("session", { bank, session_id: unit.session_id })}><${Named} name=${unit.session_id} /></a>`,
    ];
  if (unit.session_id && unit.turn_id) {
    const turn = { bank, session_id: unit.session_id, turn_id: unit.turn_id };
    yield [t("turns.turn"), html`<a href=${linkTo("turn", turn)}><${Named} name=${unit.turn_id} /></a>`];
  }
  yield [t("unit.happened"), html`<${Moment} at=${unit.occurred_at} />`];
  yield [t("turns.position"), number(unit.position)];
  if (unit.valid_from)
    yield [
      t("unit.valid"),
      html`${t("unit.valid.from")} <${Moment} at=${unit.valid_from} />${unit.valid_to &&
      html` ${t("unit.valid.to")} <${Moment} at=${unit.valid_to} />`}`,
    ];
  if (unit.superseded_by) {
    const to = linkTo("unit", { bank, unit_id: unit.superseded_by });
    yield [t("unit.superseded"), html`<a href=${to}><code class="id">${unit.superseded_by}</code></a>`];
  }
  if (unit.expires_at) yield [t("unit.expires"), html`<${Moment} at=${unit.expires_at} />`];
  if (unit.entities.length)
    yield [t("unit.entities"), html`<span class="chips">${unit.entities.map((name) => html`<a class="chip" href=${linkTo("around", { bank, name })}><${Named} name=${name} /></a> `)}</span>`];
  if (Object.keys(unit.metadata).length)
    yield [t("unit.metadata"), html`<${Said} text=${JSON.stringify(unit.metadata)} most=${2000} />`];
}

/** Raise where the unit is no longer as it was seen: a change made elsewhere is told, not overwritten. */
async function requireSeen(bank, seen) {
  const now = await getUnit(bank, seen.unit_id);
  if (now.version !== seen.version) throw changedMeanwhile(now.version, seen.version);
}

function changedMeanwhile(now, seen) {
  return Object.assign(new Error("version"), { words: t("change.meanwhile", { now, seen }) });
}

function Correct({ bank, unit, ...shared }) {
  const field = useRef();
  const act = async () => {
    const done = await changeUnit(bank, unit.unit_id, { content: field.current.value, version: unit.version });
    return done.changed ? t("correct.done", { n: number(done.facts_ended) }) : t("correct.same");
  };
  return html`<${Change} ...${shared} title=${t("correct.title")} verb=${t("correct.do")} act=${act}>
    <label for="correction">${t("correct.text")}</label>
    <textarea id="correction" ref=${field} rows="6" required defaultValue=${unit.text}></textarea>
    <p>${t("correct.will", { next: unit.version + 1, facts: number(unit.facts.length) })}</p>
  <//>`;
}

function Pin({ bank, unit, ...shared }) {
  const which = unit.pinned ? "unpin" : "pin";
  const act = async () => {
    await requireSeen(bank, unit);
    await setPin(bank, unit.unit_id, !unit.pinned);
    return t(`${which}.done`);
  };
  return html`<${Change} ...${shared} title=${t(`${which}.title`)} verb=${t(`${which}.do`)} act=${act}>
    <p>${t(`${which}.will`, { bank })}</p>
  <//>`;
}

/** Set or take away the end of a unit. */
function End({ bank, unit, ...shared }) {
  const field = useRef();
  const act = async () => {
    const at = field.current.value ? new Date(field.current.value).toISOString() : null;
    const done = await changeUnit(bank, unit.unit_id, { expires_at: at, version: unit.version });
    if (!done.changed) return t("end.same");
    return t(at ? "end.done" : "end.never");
  };
  return html`<${Change} ...${shared} title=${t("end.title")} verb=${t("end.do")} act=${act}>
    <div><label for="end">${t("bank.end.at")}</label>
      <input id="end" ref=${field} type="datetime-local" step="1" defaultValue=${unit.expires_at ? asLocal(unit.expires_at) : ""} /></div>
    <p>${t("end.will", { facts: number(unit.facts.length) })}</p>
  <//>`;
}

function Forget({ bank, unit, done, ...shared }) {
  const [erase, setErase] = useState(false);
  const act = async () => {
    await requireSeen(bank, unit);
    if (erase) return t("forget.erased", { id: (await eraseUnit(bank, unit.unit_id)).erasure_id });
    return t("forget.done", { n: number((await forgetUnit(bank, unit.unit_id)).facts_forgotten) });
  };
  const finish = (text) => done(text, true);
  return html`<${Change} ...${shared} title=${t("forget.title")} verb=${t("forget.do")} act=${act} done=${finish} danger>
    <p>${t(unit.facts.length ? "forget.will" : "forget.alone", { bank })}</p>
    <ul class="facts">${unit.facts.map((one) => html`<li><${Said} text=${one.text} most=${200} /></li>`)}</ul>
    <label class="check">
      <input type="checkbox" checked=${erase} onChange=${(event) => setErase(event.target.checked)} />
      ${t("forget.erase")}
    </label>
  <//>`;
}
