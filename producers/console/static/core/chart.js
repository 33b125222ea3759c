// Lines over time: drawn by uPlot, with the newest values, or those under the pointer, in words beside them.

import uPlot from "../vendor/uplot.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { clock } from "./format.js";
import { t } from "./texts.js";

const HEIGHT = 170;
const COLOURS = 5;

/**
 * A chart. `times`: seconds since 1970; `lines`: for each its `label` and `values`, null where there is none; `say`
 * writes a value as a person reads it.
 */
export function Chart({ title, times, lines, say }) {
  const box = useRef();
  const plot = useRef();
  const [under, setUnder] = useState(null);
  const shape = lines.map(({ label }) => label).join();
  useEffect(() => {
    const made = new uPlot(describe(lines, box.current, say, setUnder), [times, ...lines.map(({ values }) => values)], box.current);
    plot.current = made;
    const fit = new ResizeObserver(() => made.setSize({ width: box.current.clientWidth, height: HEIGHT }));
    fit.observe(box.current);
    return () => {
      fit.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current.setData([times, ...lines.map(({ values }) => values)]), [times]);
  const at = under !== null && under < times.length ? under : times.length - 1;
  const value = (values) => (values[at] === null || values[at] === undefined ? "–" : say(values[at]));
  return html`<figure class="card chart" aria-label=${title}>
    <figcaption><span class="strong">${title}</span> <span class="quiet">${at === times.length - 1 ? t("chart.now") : clock(times[at])}</span></figcaption>
    <div ref=${box} class="plot" aria-hidden="true"></div>
    <ul class="legend">
      ${lines.map(({ label, values }, place) => html`<li><span class=${`dot arm-${1 + (place % COLOURS)}`}></span> ${label} <strong>${value(values)}</strong></li>`)}
    </ul>
  </figure>`;
}

/** The places of values without a neighbour, which no line shows. */
function findLone(plot, series) {
  const values = plot.data[series];
  const there = (at) => values[at] !== null && values[at] !== undefined;
  return [...values.keys()].filter((at) => there(at) && !there(at - 1) && !there(at + 1));
}

/** Options of a chart. Its colours are those of the words beside it, which the styles say for light and for dark. */
function describe(lines, box, say, setUnder) {
  const style = (selector) => getComputedStyle(box.parentElement.querySelector(selector));
  const grid = { stroke: () => getComputedStyle(box.parentElement).borderTopColor, width: 1 };
  const axis = { stroke: () => style(".quiet").color, grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: box.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    hooks: { setCursor: [(plot) => setUnder(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, values: (_plot, moments) => moments.map(clock), space: 70 },
      { ...axis, values: (_plot, values) => values.map(say), size: 64, space: 34 },
    ],
    series: [
      {},
      ...lines.map((_line, place) => {
        const stroke = () => style(`li:nth-child(${place + 1}) .dot`).backgroundColor;
        return { stroke, width: 2, points: { size: 6, fill: stroke, filter: findLone } };
      }),
    ],
  };
}
