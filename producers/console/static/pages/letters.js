// Dead letters of turn queues: messages that were never accepted, filtered by the address, retried and dropped.

import { html, useState } from "../vendor/htm-preact.js";
import { changeLetters, changeMatchingLetters, countLetters, listLetters, listQueues } from "../core/api.js";
import { Filters, readFilter } from "../core/filters.js";
import { Moment, Said, number } from "../core/format.js";
import { useLoad } from "../core/hooks.js";
import { Change, Empty, Loaded, Page, Paged, Table } from "../core/parts.js";
import { t } from "../core/texts.js";
import { Count, WorkTabs, changeAll, sayChanged } from "../core/work.js";

const PAGE = 50;
const FILTERS = ["queue", "tenant", "kind", "code", "kept", "older_than_s"];

export function Letters({ query }) {
  const filter = readFilter(query, FILTERS);
  const queues = useLoad(listQueues, []);
  const [open, setOpen] = useState(null);
  const [said, say] = useState("");
  const [round, setRound] = useState(0);
  const done = (text) => {
    say(text);
    setRound(round + 1);
  };
  const columns = [t("letters.died"), t("letters.queue"), t("letters.kind"), t("work.attempts"), t("letters.reason"), t("work.do")];
  const rows = ({ letters }) =>
    letters.length
      ? [html`<${Table} label=${t("letters.title")} columns=${columns} rows=${letters.map((one) => describe(one, setOpen))} />`]
      : [];
  return html`<${Page} title=${t("letters.title")} lead=${t("letters.lead")}>
    <${WorkTabs} now="letters" />
    <${LetterFilters} filter=${filter} queues=${queues.value?.queues || []} />
    ${said && html`<p class="toast" role="status">${said}</p>`}
    <div class="actions start spaced">
      <${Count} count=${() => countLetters(filter)} say=${sayCounts} key=${`${JSON.stringify(filter)}${round}`} />
      <button type="button" onClick=${() => setOpen({ action: "retry" })}>${t("letters.retry.many")}</button>
      <button type="button" class="danger" onClick=${() => setOpen({ action: "drop" })}>${t("letters.drop.many")}</button>
    </div>
    <${Paged} load=${(cursor) => listLetters({ ...filter, limit: PAGE, cursor })} keys=${[JSON.stringify(filter), round]}
      rows=${rows} empty=${html`<${Loaded} of=${queues}>${({ queues: found }) => html`<${Nothing} queues=${found} />`}<//>`} />
    ${open && html`<${Bulk} ...${open} filter=${filter} close=${() => setOpen(null)} done=${done} />`}
  <//>`;
}

function Nothing({ queues }) {
  const what = queues.length ? "letters.empty" : "letters.noqueue";
  return html`<${Empty} title=${t(what)} help=${t(`${what}.help`)} />`;
}

const sayCounts = ({ letters, kept }) => t("letters.counted", { n: number(letters), kept: number(kept) });

function describe(letter, setOpen) {
  const act = (action) => html`<button type="button" class="small" onClick=${() => setOpen({ action, letter })}>${t(`work.${action}`)}</button>`;
  return [
    html`<${Moment} at=${letter.died_at} />`,
    html`<span class="strong">${letter.queue}</span><br /><span class="quiet"><${Said} text=${letter.tenant} most=${80} /></span>`,
    html`${t(`letters.kind.${letter.kind}`)}<br /><span class="quiet">${t("letters.bytes", { n: number(letter.size_bytes) })}, ${t(`letters.kept.${letter.content_kept}`)}</span>`,
    number(letter.attempts),
    html`<${Said} text=${`${letter.code}: ${letter.reason}`} most=${400} />`,
    html`<span class="row tight">${letter.content_kept && act("retry")} ${act("drop")}</span>`,
  ];
}

function LetterFilters({ filter, queues }) {
  const choice = (name, values) => ({ name, label: t(`letters.${name}`), options: values.map((value) => [value, t(`letters.${name}.${value}`)]) });
  const fields = [
    { name: "queue", label: t("letters.queue"), options: queues.map((one) => [one.queue, one.queue]) },
    { name: "tenant", label: t("work.tenant"), input: {} },
    choice("kind", ["turns", "recalls"]),
    { name: "code", label: t("letters.code"), input: {} },
    choice("kept", ["true", "false"]),
    { name: "older_than_s", label: t("work.older_than_s"), input: { type: "number", min: 0 } },
  ];
  return html`<${Filters} page="letters" label=${t("work.filters")} filter=${filter} fields=${fields} />`;
}

/** Retry or drop one letter, or all that match: counted by the server first, and changed by it. */
function Bulk({ action, letter, filter, close, done }) {
  const where = whereOf(action, filter);
  const counted = useLoad(async () => (letter ? { letters: 1 } : countLetters(where)), []);
  const [progress, setProgress] = useState(null);
  const act = async () =>
    sayChanged(
      letter
        ? await changeLetters({ action, queue: letter.queue, ids: [letter.letter_id] })
        : await changeAll(changeMatchingLetters, { action, where, newest_at: counted.value.newest_at }, setProgress),
    );
  const title = t(letter ? `letters.${action}` : `letters.${action}.all`);
  return html`<${Change} title=${title} verb=${t(`work.${action}`)} danger=${action === "drop"} act=${act} close=${close} done=${done}
    blocked=${!counted.value?.letters}>
    <${Loaded} of=${counted}>${({ letters }) => html`<p>${t(`letters.${action}.will`, { n: number(letters) })}</p>`}<//>
    ${progress !== null && html`<p role="status">${t("work.progress", { done: number(progress), n: number(counted.value.letters) })}</p>`}
  <//>`;
}

/** The letters that an action changes, of those that the filter shows: without its content none can be retried. */
const whereOf = (action, { older_than_s, kept, ...filter }) => ({
  ...filter,
  ...(older_than_s && { older_than_s: Number(older_than_s) }),
  ...(action === "retry" ? { kept: true } : kept && { kept: kept === "true" }),
});
