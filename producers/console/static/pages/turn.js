// A turn: each message, and where it is in the pipeline; watched until every stage is done.

import { html, useEffect } from "../vendor/htm-preact.js";
import { getTurn } from "../core/api.js";
import { Moment, Named, Said, number } from "../core/format.js";
import { linkTo, useLoad } from "../core/hooks.js";
import { Chip, Empty, Gate, Loaded, Page, Paged, Status, bankCrumb } from "../core/parts.js";
import { t } from "../core/texts.js";
import { Drawn } from "../core/units.js";

const WATCH_MS = 1000;
// Of a page, so that no answer is long however long the turn is.
const MESSAGES = 20;
const CHARACTERS = 1500;
const MOVING = new Set(["pending", "running"]);

export function Turn({ who, query }) {
  const { bank = "default", session_id, turn_id } = query;
  const crumbs = [
    { text: t("nav.memory"), to: linkTo("memory") },
    bankCrumb(bank),
    { text: session_id, to: linkTo("session", { bank, session_id }) },
  ];
  return html`<${Page} title=${html`<${Named} name=${turn_id} />`} lead=${t("turns.turn")} crumbs=${crumbs}>
    <${Gate}><${WatchedTurn} bank=${bank} session_id=${session_id} turn_id=${turn_id} who=${who} /><//>
  <//>`;
}

function WatchedTurn({ bank, session_id, turn_id, who }) {
  const turn = useLoad(() => getTurn({ bank, session_id, turn_id, messages: 0 }), [bank, session_id, turn_id]);
  const moves = Object.values(turn.value?.stages || {}).some(({ status }) => MOVING.has(status));
  useEffect(() => {
    if (!moves) return undefined;
    const timer = setInterval(() => document.hidden || turn.reload(), WATCH_MS);
    return () => clearInterval(timer);
  }, [moves, turn.reload]);
  return html`<${Loaded} of=${turn}>${(found) => html`
    <section class="card" aria-labelledby="stages">
      <h2 id="stages">${t("turn.stages")}</h2>
      <p class="quiet" role="status">${t(moves ? "turn.watch" : "turn.stages.help")}</p>
      <ol class="stages">
        ${Object.entries(found.stages).map(([stage, { status, attempts, updated_at, error }]) => html`<li>
          <span class="strong">${stage}</span>
          <${Status} of=${status} />
          <span class="quiet"><${Moment} at=${updated_at} /></span>
          ${attempts > 1 && html`<span class="quiet">${t("turn.attempts", { n: number(attempts) })}</span>`}
          ${error && html`<span class="quiet">${error.category}${error.reason && `: ${error.reason}`}</span>`}
        </li>`)}
      </ol>
      <p class="quiet">${t("turns.position")} ${number(found.position)} · <${Moment} at=${found.accepted_at} />
        ${who.operator && html` · <a href=${linkTo("job", { id: found.id, tenant: who.tenant })}>${t("turn.work")}</a>`}</p>
    </section>
    <h2>${t("turn.messages")}</h2>
    <${Messages} of=${{ bank, session_id, turn_id }} />
  `}<//>`;
}

function Messages({ of }) {
  const load = async (from) => {
    const found = await getTurn({ ...of, from_ordinal: from || 0, messages: MESSAGES, characters: CHARACTERS });
    return { ...found, has_more: found.more_messages, cursor: (found.messages.at(-1)?.ordinal ?? 0) + 1 };
  };
  return html`<${Paged} load=${load} keys=${Object.values(of)} empty=${html`<${Empty} title=${t("turn.none")} />`}
    rows=${({ messages }) => messages.map((one) => html`<article class=${`card unit role-${one.role}`}>
      <p class="meta">
        <${Chip}>${one.role}<//>
        ${one.name && html`<span class="strong"><${Named} name=${one.name} /></span>`}
        <${Moment} at=${one.occurred_at} />
        ${one.parts.length > 0 && html`<span>${t("turn.parts", { n: number(one.parts.length) })}</span>`}
        ${one.cut && html`<span>${t("turn.cut")}</span>`}
        <a href=${linkTo("unit", { bank: of.bank, unit_id: one.unit_id })}>${t("unit.title")}</a>
      </p>
      <p class="unit-text"><${Said} text=${one.content} /></p>
      <${Drawn} bank=${of.bank} id=${one.unit_id} />
    </article>`)}
  />`;
}
