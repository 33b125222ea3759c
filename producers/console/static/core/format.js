// Values as a person reads them: times in the reader's zone, numbers in the reader's language, marks made visible.

import { html } from "../vendor/htm-preact.js";
import { language } from "./texts.js";

// Of the browser's own places, the one that speaks the chosen language: English dates are not the same everywhere.
const place = navigator.languages.find((one) => one.split("-")[0] === language) || language;
const MOMENT = new Intl.DateTimeFormat(place, { dateStyle: "medium", timeStyle: "short" });
const CLOCK = new Intl.DateTimeFormat(place, { hour: "2-digit", minute: "2-digit" });
const NUMBER = new Intl.NumberFormat(language);
const SCORE = new Intl.NumberFormat(language, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const RATE = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
const SHARE = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
const MS = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });

export const number = (value) => NUMBER.format(value);
export const score = (value) => SCORE.format(value);
export const rate = (value) => RATE.format(value);
/** The time of day of a moment, in seconds since 1970, in the reader's zone. */
export const clock = (seconds) => CLOCK.format(seconds * 1000);
/** A part of a whole, from 0 to 1. */
export const share = (value) => SHARE.format(value);
export const ms = (value) => MS.format(value);

/** A moment in the reader's zone, with UTC on hover. */
export function Moment({ at }) {
  if (!at) return "–";
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  return html`<time datetime=${at} title=${`${date.toISOString().replace("T", " ").slice(0, 19)} UTC`}
    >${MOMENT.format(date)}</time
  >`;
}

/** A moment as a field of date and time takes it, in the reader's zone. */
export function asLocal(at) {
  const date = new Date(at);
  return new Date(date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// Directions, zero widths, tags and other marks that change what is seen and cannot be seen themselves.
const MARKS = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}])/u;

/** Text that others wrote: isolated in its direction, with invisible marks shown by number. */
export function Said({ text, most }) {
  const whole = text ?? "";
  const cut = most !== undefined && whole.length > most ? `${whole.slice(0, most)}…` : whole;
  const parts = cut.split(MARKS).map((part, place) =>
    place % 2 ? html`<span class="mark">U+${part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}</span>` : part,
  );
  return html`<bdi class="said">${parts}</bdi>`;
}

/** A name that a caller gave, on one line. */
export const Named = ({ name }) => html`<${Said} text=${name} most=${120} />`;

/** A text of the table in which `code` stands between grave accents. */
export const Prose = ({ text }) =>
  text.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));

const UNITS = [
  [86400, "day"],
  [3600, "hour"],
  [60, "minute"],
  [1, "second"],
];

/** A length of time by its largest unit. */
export function age(seconds) {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) || UNITS[UNITS.length - 1];
  const shown = { style: "unit", unit, unitDisplay: "narrow", maximumFractionDigits: 0 };
  return new Intl.NumberFormat(language, shown).format(Math.floor(seconds / size));
}
