// How it goes now: depth and age of each queue, workers, health.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { getHealth, getStatus, listWorkers } from "../core/api.js";
import { Moment, age, number } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Chip, Empty, Failure, Loading, Page, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

// The figures are read every 5 s at most, and never for more than a tenth of the time: all turns are counted for them.
const EVERY_MS = 5000;
const PAUSE = 9;
const SAMPLES = 720;
const HEALTH = { ready: "good", degraded: "warn", failing: "status-dead" };

/** Read all figures again and again while the page is in view: { value, error, samples, every }. */
function useFigures() {
  const [state, set] = useState({ samples: [], every: EVERY_MS });
  useEffect(() => {
    let timer;
    let over = false;
    const read = async () => {
      const began = performance.now();
      let next = {};
      if (!document.hidden) {
        try {
          const [status, { workers }, health] = await Promise.all([getStatus(), listWorkers(), getHealth()]);
          next = { value: { status, workers, health }, error: null };
        } catch (error) {
          next = { error };
        }
      }
      if (over) return;
      const every = Math.max(EVERY_MS, PAUSE * (performance.now() - began));
      set((before) => ({
        ...before,
        ...next,
        every,
        samples: next.value ? [...before.samples, sample(next.value.status)].slice(-SAMPLES) : before.samples,
      }));
      timer = setTimeout(read, every);
    };
    const seen = () => {
      if (document.hidden) return;
      clearTimeout(timer);
      read();
    };
    document.addEventListener("visibilitychange", seen);
    read();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);
  return state;
}

const undone = (counts) => (counts.pending || 0) + (counts.running || 0);
const sample = (status) => Object.fromEntries(Object.entries(status.rows).map(([stage, counts]) => [stage, undone(counts)]));

export function Now() {
  const { value, error, samples, every } = useFigures();
  return html`<${Page} title=${t("now.title")} lead=${t("now.lead", { s: number(Math.round(every / 1000)) })}>
    ${error && html`<${Failure} error=${error} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && html`<${Figures} ...${value} samples=${samples} />`}
  <//>`;
}

function Figures({ status, workers, health, samples }) {
  const stages = Object.entries(status.rows);
  const columns = [t("work.stage"), ...["pending", "running", "unknown", "dead"].map((one) => t(`status.${one}`)), t("now.oldest"), t("now.depth")];
  return html`
    <dl class="figures">
      <div><dt>${t("now.health")}</dt><dd><${Chip} kind=${HEALTH[health.status]}>${t(`now.health.${health.status}`)}<//></dd></div>
      <div><dt>${t("now.turns")}</dt><dd>${number(status.turns)}</dd></div>
      <div><dt>${t("now.undone")}</dt><dd><a href=${linkTo("work")}>${number(status.undone)}</a></dd></div>
      <div><dt>${t("now.dead")}</dt><dd><a href=${linkTo("work", { status: "dead" })}>${number(status.dead)}</a></dd></div>
      <div><dt>${t("now.oldest")}</dt><dd>${status.undone ? age(status.oldest_undone_s) : "–"}</dd></div>
    </dl>
    ${[...Object.entries(health.failing).map(([part, why]) => `${part}: ${why}`), ...health.reasons].map(
      (reason) => html`<p class="note warn">${reason}</p>`,
    )}
    <section class="spaced">
      <h2>${t("now.stages")}</h2>
      <div class="framed"><${Table} label=${t("now.stages")} columns=${columns} rows=${stages.map(([stage, counts]) => [
        html`<a class="strong" href=${linkTo("work", { stage })}>${stage}</a>`,
        number(counts.pending), number(counts.running), number(counts.unknown), number(counts.dead),
        status.oldest_by_stage_s[stage] ? age(status.oldest_by_stage_s[stage]) : "–",
        html`<${Line} values=${samples.map((one) => one[stage] || 0)} />`,
      ])} /></div>
    </section>
    <section class="spaced">
      <h2>${t("now.workers")}</h2>
      ${workers.length === 0
        ? html`<${Empty} title=${t("now.noworkers")} help=${t("now.noworkers.help")} />`
        : html`<div class="framed"><${Table} label=${t("now.workers")}
            columns=${[t("job.worker"), t("now.state"), t("now.version"), t("now.works"), t("now.claims"), t("now.seen")]}
            rows=${workers.map((one) => [
              html`<code class="id">${one.worker}</code>`,
              html`<${Chip} kind=${one.state === "working" ? "good" : "warn"}>${t(`state.${one.state}`)}<//>`,
              one.version,
              one.stages.join(", "),
              number(one.claims),
              html`<${Moment} at=${one.seen_at} />`,
            ])} /></div>`}
    </section>`;
}

/** The last values as a line; the table beside it says the newest in numbers. */
function Line({ values }) {
  const most = Math.max(1, ...values);
  const points = values.map((value, place) => `${(100 * place) / Math.max(1, values.length - 1)},${19 - (18 * value) / most}`);
  return html`<svg class="line" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label=${number(values[values.length - 1] || 0)}>
    <polyline points=${points.join(" ")}></polyline>
  </svg>`;
}
