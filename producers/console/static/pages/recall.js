// The recall explorer: a question as an agent asks it, and why each result stands where it stands.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { recall } from "../core/api.js";
import { BankField, useBank } from "../core/banks.js";
import { Moment, Named, Said, ms, number, score } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Comparison } from "../core/comparison.js";
import { Chip, Copy, Empty, Failure, Loading, Page, Table } from "../core/parts.js";
import { FILTERS, MOST, SETTINGS, bodyOf, explainMiss, labelOf } from "../core/recalls.js";
import { t } from "../core/texts.js";

const ROLES = ["user", "assistant", "tool", "system", "developer"];
const KINDS = ["world", "experience", "opinion", "observation", "mental_model"];
const ARM_COLOURS = ["dense", "lexical", "time", "recent", "pinned"];

export function Recall({ query }) {
  const [asked, setAsked] = useState(null);
  const [state, set] = useState({});
  const [kept, keep] = useState(null);
  const turn = useRef(0);
  const ask = async (question, bank, chosen) => {
    // The question is content: it stays out of the address, and so out of the browser's history.
    history.replaceState(null, "", linkTo("recall", { bank, ...chosen }));
    const mine = ++turn.current;
    set({ busy: true });
    try {
      const answer = await recall(bodyOf(question, bank, chosen));
      if (mine !== turn.current) return;
      setAsked({ question, bank, chosen });
      set({ answer });
    } catch (error) {
      if (mine === turn.current) set({ error });
    }
  };
  return html`<${Page} title=${t("recall.title")} lead=${t("recall.lead")}>
    <${Form} query=${query} ask=${ask} busy=${state.busy} />
    <div aria-live="polite">
      ${state.busy && html`<${Loading} />`}
      ${state.error && html`<${Failure} error=${state.error} />`}
      ${kept && html`<p class="note">${t("compare.kept")} <button type="button" class="small" onClick=${() => keep(null)}>${t("compare.stop")}</button></p>`}
      ${state.answer && !kept && html`<div class="actions keep"><button type="button" class="small" onClick=${() => keep({ asked, answer: state.answer })}>${t("compare.keep")}</button></div>`}
      ${state.answer && kept && kept.answer !== state.answer && html`<${Comparison} first=${kept} second=${{ asked, answer: state.answer }} />`}
      ${state.answer && !(kept && kept.answer !== state.answer) && html`<${Answer} answer=${state.answer} asked=${asked} />`}
      ${!state.busy && !state.error && !state.answer &&
      html`<${Empty} title=${t("recall.start")} help=${t("recall.start.help")} />`}
    </div>
  <//>`;
}

function Form({ query, ask, busy }) {
  const [chosen, setChosen] = useState(() =>
    Object.fromEntries(SETTINGS.filter((name) => query[name]).map((name) => [name, query[name]])),
  );
  const of = useBank(query.bank);
  const question = useRef();
  useEffect(() => question.current.focus(), []);
  const put = (name, value) => {
    const next = { ...chosen };
    if (value) next[name] = value;
    else delete next[name];
    setChosen(next);
  };
  const submit = (event) => {
    event.preventDefault();
    ask(question.current.value, of.bank, chosen);
  };
  const submitOnEnter = (event) => {
    if (event.key === "Enter" && !event.shiftKey) submit(event);
  };
  const text = (name, type = "text", more = {}) => html`<div>
    <label for=${name}>${t(`recall.${name}`)}</label>
    <input id=${name} type=${type} value=${chosen[name] || ""} onInput=${(event) => put(name, event.target.value)} ...${more} />
  </div>`;
  const listed = (name) => text(name, "text", { "aria-description": t("recall.several"), placeholder: "a, b" });
  const moment = (name, help) =>
    text(name, "datetime-local", { step: 1, title: help && t(`recall.${name}.help`) });
  const several = (name, values) => {
    const now = (chosen[name] || "").split(",").filter(Boolean);
    const flip = (value) => put(name, values.filter((one) => now.includes(one) !== (one === value)).join(","));
    return html`<fieldset>
      <legend>${t(`recall.${name}`)}</legend>
      <div class="choices">
        ${values.map((value) => html`<label class="check"
          ><input type="checkbox" checked=${now.includes(value)} onChange=${() => flip(value)} />${value}</label
        >`)}
      </div>
    </fieldset>`;
  };
  const count = Object.keys(chosen).length;
  return html`<form class="card ask" onSubmit=${submit}>
    <label for="question">${t("recall.question")}</label>
    <textarea id="question" ref=${question} rows="2" required maxlength="16000" placeholder=${t("recall.placeholder")}
      onKeyDown=${submitOnEnter}></textarea>
    <div class="fields">
      <${BankField} of=${of} disabled=${Boolean(chosen.across_banks)} />
      ${text("user_id")}
      <div><button type="submit" class="primary" disabled=${busy}>${t("recall.ask")}</button></div>
    </div>
    <details>
      <summary>${t("recall.filters")}</summary>
      <div class="fields">
        ${text("k", "number", { min: 1, max: MOST })} ${text("max_tokens", "number", { min: 1 })}
        ${text("min_score", "number", { min: 0, step: "any" })}
        ${listed("sessions")} ${listed("tags")} ${listed("without")}
        ${moment("from")} ${moment("to")}
        <div>
          <label for="time">${t("recall.time")}</label>
          <select id="time" value=${chosen.time || "occurred"}
            onChange=${(event) => put("time", event.target.value === "occurred" ? "" : event.target.value)}>
            <option value="occurred">${t("recall.time.occurred")}</option>
            <option value="said">${t("recall.time.said")}</option>
          </select>
        </div>
        ${moment("as_of", true)} ${moment("known_at", true)}
      </div>
      ${several("roles", ROLES)} ${several("kinds", KINDS)}
      <label class="check">
        <input type="checkbox" checked=${Boolean(chosen.across_banks)}
          onChange=${(event) => put("across_banks", event.target.checked ? "1" : "")} />
        ${t("recall.across")}
      </label>
    </details>
    ${count > 0 && html`<p class="chips">
      ${Object.entries(chosen).map(([name, value]) => html`<button type="button" class="chip accent" onClick=${() => put(name, "")}
        aria-label=${t("filter.remove", { name: labelOf(name) })}>${labelOf(name)}: <${Said} text=${value} most=${60} /> ×</button> `)}
      <button type="button" class="small" onClick=${() => setChosen({})}>${t("recall.clear")}</button>
    </p>`}
  </form>`;
}

function Answer({ answer, asked }) {
  const { results, evidence, freshness } = answer;
  return html`
    <dl class="figures">
      <div><dt>${t("recall.results")}</dt><dd>${number(results.length)}</dd></div>
      <div><dt>${t("recall.tokens")}</dt><dd>${number(answer.tokens)}</dd></div>
      <div><dt>${t("recall.took")}</dt><dd>${t("recall.ms", { n: ms(answer.took_ms) })}</dd></div>
      <div>
        <dt>${t("recall.evidence")}</dt>
        <dd>
          <${Chip} kind=${evidence.on_topic ? "good" : "warn"}>${t(evidence.on_topic ? "recall.ontopic" : "recall.offtopic")}<//>
          ${evidence.about && html` <${Chip}>${t(`recall.about.${evidence.about}`)}<//>`}
        </dd>
      </div>
      <div>
        <dt>${t("recall.fresh")}</dt>
        <dd>${freshness.pending ? t("recall.fresh.pending", { n: number(freshness.pending) }) : t("recall.fresh.all")}</dd>
      </div>
    </dl>
    ${answer.degraded && html`<p class="note">${t("recall.degraded", { parts: answer.degraded.join(", ") })}</p>`}
    ${answer.note && html`<p class="note">${answer.note}</p>`}
    ${results.length === 0 &&
    html`<${Empty} title=${t("recall.empty")} help=${t(answer.bank_known ? "recall.empty.help" : "recall.nobank")} />`}
    <ol class="results">
      ${results.map((one, place) => html`<li key=${one.unit_id}><${Result} one=${one} bank=${one.bank || asked.bank} first=${place === 0} /></li>`)}
    </ol>
    <${Missing} answer=${answer} asked=${asked} />
    <div class="columns">
      <section class="card">
        <h2>${t("recall.prompt")}</h2>
        ${answer.reference
          ? html`<pre tabindex="0"><${Said} text=${answer.reference.content} most=${50000} /></pre>`
          : html`<p class="quiet">${t("recall.prompt.none")}</p>`}
        ${answer.reference && html`<${Copy} text=${answer.reference.content} />`}
      </section>
      <section class="card">
        <h2>${t("recall.steps")}</h2>
        <${Steps} trace=${answer.trace || {}} />
      </section>
    </div>
  `;
}

function Result({ one, bank, first }) {
  const speaker = one.name || one.role;
  return html`<article class="card result">
    <p class="unit-text"><${Said} text=${one.text} most=${4000} /></p>
    <p class="meta">
      <${Chip} kind="accent">${t("recall.score", { n: score(one.score) })}<//>
      <${Chip}>${one.kind}<//>
      ${speaker && html`<span><${Named} name=${speaker} /></span>`}
      <${Moment} at=${one.occurred_at} />
      ${one.cut && html`<span>${t("recall.passage")}</span>`}
      ${one.turn_ids && html`<span>${t("recall.told", { n: one.turn_ids.length })}</span>`}
      <a href=${linkTo("unit", { bank, unit_id: one.unit_id })}>${t("unit.title")}</a>
    </p>
    ${one.explain && html`<details open=${first}>
      <summary>${t("recall.why")}</summary>
      <${Why} explain=${one.explain} />
    </details>`}
  </article>`;
}

/** How the score came about: what each arm adds, and by how much each rule moved the sum. */
function Why({ explain }) {
  const arms = Object.entries(explain.arms).map(([name, arm]) => ({ name, ...arm, share: arm.score * arm.weight }));
  const found = arms.filter(({ share }) => share !== 0).sort((a, b) => b.share - a.share);
  const moved = Object.entries(explain.moved);
  return html`
    <${Shares} arms=${found} />
    <${Table}
      label=${t("recall.why")}
      columns=${[t("recall.arm"), t("recall.raw"), t("recall.weight"), t("recall.share"), t("recall.rank")]}
      rows=${found.map((arm) => [
        html`<span class="nowrap"><span class=${`dot arm-${place(arm.name)}`}></span> ${arm.name}</span>`,
        score(arm.score),
        score(arm.weight),
        html`<strong>${score(arm.share)}</strong>`,
        number(arm.rank),
      ])}
    />
    ${moved.length > 0 &&
    html`<${Table}
      label=${t("recall.moved")}
      columns=${[t("recall.rule"), t("recall.by")]}
      rows=${moved.map(([rule, by]) => [rule, html`<strong>${by > 0 ? "+" : ""}${score(by)}</strong>`])}
    />`}
  `;
}

/** The colour of an arm by its number in the styles; 0 is that of any other. */
const place = (arm) => ARM_COLOURS.indexOf(arm) + 1;

/** What each arm adds, as one bar; the table beside it says the same. */
function Shares({ arms }) {
  const positive = arms.filter(({ share }) => share > 0);
  const whole = positive.reduce((sum, { share }) => sum + share, 0);
  if (!whole) return null;
  let at = 0;
  return html`<svg class="shares" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    ${positive.map(({ name, share }) => {
      const x = at;
      at += (100 * share) / whole;
      return html`<rect class=${`arm-${place(name)}`} x=${x} y="0" width=${(100 * share) / whole} height="4"></rect>`;
    })}
  </svg>`;
}

function Steps({ trace }) {
  const most = Math.max(1e-9, ...Object.values(trace));
  return html`<dl class="steps">
    ${Object.entries(trace).map(([step, took]) => html`<div>
      <dt>${step}</dt>
      <dd><${Bar} share=${took / most} /> ${t("recall.ms", { n: ms(took) })}</dd>
    </div>`)}
  </dl>`;
}

const Bar = ({ share }) => html`<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
  <rect class="track" width="100" height="4"></rect><rect class="arm-1" width=${100 * share} height="4"></rect>
</svg>`;

/** Why a unit that should have come is not in the answer. */
function Missing({ answer, asked }) {
  const field = useRef();
  const [state, set] = useState({});
  useEffect(() => set({}), [answer]);
  const find = async (event) => {
    event.preventDefault();
    const id = field.current.value.trim().toLowerCase();
    set({ busy: true });
    try {
      set({ found: await explainMiss(asked.question, asked.bank, asked.chosen, id, answer) });
    } catch (error) {
      set(error.status === 404 ? { found: { why: "notunit" } } : { error });
    }
  };
  return html`<form class="card missing" onSubmit=${find}>
    <h2>${t("miss.title")}</h2>
    <p class="quiet">${t("miss.lead")}</p>
    <div class="row">
      <label class="hidden" for="missed">${t("miss.id")}</label>
      <input id="missed" ref=${field} required placeholder="00000000-0000-0000-0000-000000000000" spellcheck=${false}
        pattern="[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}" />
      <button type="submit" disabled=${state.busy}>${t("miss.find")}</button>
    </div>
    <div role="status">
      ${state.busy && html`<${Loading} />`}
      ${state.error && html`<${Failure} error=${state.error} />`}
      ${state.found && html`<p class="note">${sayMiss(state.found, asked)}</p>`}
    </div>
  </form>`;
}

function sayMiss(found, { bank, chosen }) {
  const values = { bank, n: MOST, rank: found.rank };
  if (found.why === "below") {
    values.score = score(found.score);
    values.limit = chosen.k && !chosen.max_tokens ? t("miss.limit.k", { n: chosen.k }) : t("miss.limit.tokens");
  }
  if (found.why === "filter")
    values.filters = FILTERS.filter((name) => found.filters.includes(name))
      .map((name) => t(`recall.${name}`))
      .join(", ");
  return t(`miss.${found.why}`, values);
}
