// How it goes now, and how it went in the last hour: told by a stream while the page is in view.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { FIGURES } from "../core/api.js";
import { Chart } from "../core/chart.js";
import { EventStream } from "../core/events.js";
import { Moment, Prose, age, ms, number, rate } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Chip, Empty, Failure, Loading, Page, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

const HOUR_MS = 3_600_000;
const HEALTH = { ready: "good", degraded: "warn", failing: "status-dead" };

/** Watch the figures while the page is in view: { report, samples, error }; what was told stays while a stream is broken. */
function useFigures() {
  const [state, set] = useState({ samples: [] });
  useEffect(() => {
    const tell = (report) => set(({ samples }) => ({ report, samples: ofAnHour([...samples, ...report.samples]) }));
    const broke = (error) => set((before) => ({ ...before, error }));
    const stream = new EventStream(FIGURES, { tell, broke });
    const seen = () => (document.hidden ? stream.stop() : stream.start());
    document.addEventListener("visibilitychange", seen);
    seen();
    return () => {
      document.removeEventListener("visibilitychange", seen);
      stream.stop();
    };
  }, []);
  return state;
}

function ofAnHour(samples) {
  const newest = Date.parse(samples[samples.length - 1].at);
  return samples.filter(({ at }) => newest - Date.parse(at) <= HOUR_MS);
}

export function Now() {
  const { report, samples, error } = useFigures();
  return html`<${Page} title=${t("now.title")} lead=${t("now.lead")}>
    ${error && html`<${Failure} error=${error} />`}
    ${!report && !error && html`<${Loading} />`}
    ${report && html`<${Figures} report=${report} samples=${samples} />`}
  <//>`;
}

const sum = (counts) => Object.values(counts || {}).reduce((all, one) => all + one, 0);

function Figures({ report, samples }) {
  const newest = samples[samples.length - 1];
  const oldest = Math.max(0, ...Object.values(newest.oldest_s || {}));
  return html`
    <dl class="figures">
      <div><dt>${t("now.health")}</dt><dd><${Chip} kind=${HEALTH[report.status]}>${t(`now.health.${report.status}`)}<//></dd></div>
      <div><dt>${t("now.accepted")}</dt><dd>${newest.turns_per_s === null ? "–" : rate(newest.turns_per_s)}</dd></div>
      <div><dt>${t("now.undone")}</dt><dd><a href=${linkTo("work")}>${number(sum(newest.undone))}</a></dd></div>
      <div><dt>${t("now.failed")}</dt><dd><a href=${linkTo("work", { status: "dead" })}>${number(sum(newest.failed))}</a></dd></div>
      <div><dt>${t("now.oldest")}</dt><dd>${oldest ? age(oldest) : "–"}</dd></div>
    </dl>
    ${[...Object.entries(report.failing).map(([part, why]) => `${part}: ${why}`), ...report.reasons].map(
      (reason) => html`<p class="note warn">${reason}</p>`,
    )}
    <${Alerts} alerts=${report.alerts} unjudged=${report.unjudged} />
    <${Charts} samples=${samples} stages=${Object.keys(report.rows)} />
    <${Stages} rows=${report.rows} oldest=${newest.oldest_s || {}} />
    <${Workers} workers=${report.workers} />`;
}

function Alerts({ alerts, unjudged }) {
  const firing = alerts.filter((one) => one.firing);
  const pending = alerts.filter((one) => !one.firing);
  return html`<section class="spaced">
    <h2>${t("now.alerts")}</h2>
    <p class="quiet"><${Prose} text=${t("now.alerts.help")} /> ${firing.length === 0 && t("now.alerts.none")}</p>
    ${firing.length > 0 && html`<${AlertTable} label=${t("now.alerts")} alerts=${firing} />`}
    ${pending.length > 0 &&
    html`<details><summary>${t("now.pending", { n: number(pending.length) })}</summary><${AlertTable} label=${t("now.pending", { n: number(pending.length) })} alerts=${pending} /></details>`}
    ${unjudged.length > 0 &&
    html`<details><summary>${t("now.unjudged", { n: number(unjudged.length) })}</summary>
      <p class="quiet">${t("now.unjudged.why")}</p>
      <ul>${unjudged.map((name) => html`<li><code>${name}</code></li>`)}</ul></details>`}
  </section>`;
}

const AlertTable = ({ label, alerts }) => html`<div class="framed spaced"><${Table} label=${label} columns=${[t("now.alert"), t("now.severity"), t("now.what"), t("operate.since")]}
  rows=${alerts.map((one) => [
    html`<span class="strong">${one.name}</span>`,
    html`<${Chip} kind=${one.severity === "page" ? "status-dead" : "warn"}>${t(`severity.${one.severity}`)}<//>`,
    one.summary,
    html`<${Moment} at=${one.since} />`,
  ])} /></div>`;

/** The last hour. A stage without a figure has none of it; where the ledger was not read, the line is broken. */
function Charts({ samples, stages }) {
  const times = samples.map(({ at }) => Date.parse(at) / 1000);
  const line = (label, of) => ({ label, values: samples.map((one) => of(one) ?? null) });
  const byStage = (of, none) => stages.map((stage) => line(stage, (one) => of(one) && (of(one)[stage] ?? none)));
  const chart = (name, lines, say) => html`<${Chart} title=${t(`chart.${name}`)} times=${times} lines=${lines} say=${say} />`;
  return html`<section class="spaced">
    <h2>${t("now.hour")}</h2>
    <div class="charts">
      ${chart("undone", byStage((one) => one.undone, 0), number)}
      ${chart("rate", [...byStage((one) => one.done_per_s, 0), line(t("chart.accepted"), (one) => one.turns_per_s)], rate)}
      ${chart("recall", [line("p50", (one) => one.recall_p50_ms), line("p95", (one) => one.recall_p95_ms)], (value) => t("recall.ms", { n: ms(value) }))}
      ${chart("age", byStage((one) => one.age_p95_s, null), (value) => t("chart.seconds", { n: rate(value) }))}
    </div>
  </section>`;
}

function Stages({ rows, oldest }) {
  const statuses = ["pending", "running", "unknown", "dead"];
  return html`<section class="spaced">
    <h2>${t("now.stages")}</h2>
    <div class="framed"><${Table} label=${t("now.stages")}
      columns=${[t("work.stage"), ...statuses.map((one) => t(`status.${one}`)), t("now.oldest")]}
      rows=${Object.entries(rows).map(([stage, counts]) => [
        html`<a class="strong" href=${linkTo("work", { stage })}>${stage}</a>`,
        ...statuses.map((one) => number(counts[one])),
        oldest[stage] ? age(oldest[stage]) : "–",
      ])} /></div>
  </section>`;
}

function Workers({ workers }) {
  if (workers.length === 0) return html`<${Empty} title=${t("now.noworkers")} help=${t("now.noworkers.help")} />`;
  return html`<section class="spaced">
    <h2>${t("now.workers")}</h2>
    <div class="framed"><${Table} label=${t("now.workers")}
      columns=${[t("job.worker"), t("now.state"), t("now.version"), t("now.works"), t("now.claims"), t("now.seen")]}
      rows=${workers.map((one) => [
        html`<code class="id">${one.worker}</code>`,
        html`<${Chip} kind=${one.state === "working" ? "good" : "warn"}>${t(`state.${one.state}`)}<//>`,
        one.version,
        one.stages.join(", "),
        number(one.claims),
        html`<${Moment} at=${one.seen_at} />`,
      ])} /></div>
  </section>`;
}
