// A question as the address holds it, as the API takes it, and why a unit is not in an answer.

import { getUnit, recall } from "./api.js";
import { t } from "./texts.js";

const LISTS = ["sessions", "tags", "without"];
const CHOICES = ["roles", "kinds"];
const NUMBERS = ["k", "max_tokens", "min_score"];
const MOMENTS = ["from", "to", "as_of", "known_at"];
/** What leaves units out, by the name in the address. */
export const FILTERS = ["user_id", "sessions", "roles", "kinds", "tags", "from", "to", "as_of", "known_at", "min_score", "without"];
export const SETTINGS = [...FILTERS, "k", "max_tokens", "time", "across_banks"];
/** What a filter or limit is called. */
export const labelOf = (name) => t(`recall.${name === "across_banks" ? "across" : name}`);
/** Most results that the API gives. */
export const MOST = 100;

const split = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

/** Return the body of a recall for a question and what the address holds. */
export function bodyOf(question, bank, set) {
  const body = { query: question, explain: true };
  if (set.across_banks) body.across_banks = true;
  else body.bank = bank;
  if (set.user_id) body.user_id = set.user_id;
  for (const name of [...LISTS, ...CHOICES]) if (set[name]) body[name] = split(set[name]);
  for (const name of NUMBERS) if (set[name]) body[name] = Number(set[name]);
  for (const name of MOMENTS) if (set[name]) body[name] = new Date(set[name]).toISOString();
  if (set.time && (set.from || set.to)) body.time = set.time;
  return body;
}

const without = (set, ...names) => Object.fromEntries(Object.entries(set).filter(([name]) => !names.includes(name)));

/** Ask for as much as the API gives, and return the place of a unit, from 1, with its score; null: it is not there. */
async function findIn(question, bank, set, id) {
  const { results } = await recall({ ...bodyOf(question, bank, without(set, "k", "max_tokens")), k: MOST });
  const place = results.findIndex((one) => one.unit_id === id);
  return place < 0 ? null : { rank: place + 1, score: results[place].score };
}

/** Return why a unit is not in an answer: { why, ... }. Raises ApiError where the bank has no such unit. */
export async function explainMiss(question, bank, set, id, answer) {
  const here = answer.results.findIndex((one) => one.unit_id === id);
  if (here >= 0) return { why: "here", rank: here + 1 };
  const unit = await getUnit(bank, id);
  const below = await findIn(question, bank, set, id);
  if (below) return { why: "below", ...below };
  const used = FILTERS.filter((name) => set[name]);
  if (used.length && (await findIn(question, bank, without(set, ...used), id))) {
    const guilty = [];
    for (const name of used) if (await findIn(question, bank, without(set, name), id)) guilty.push(name);
    return guilty.length ? { why: "filter", filters: guilty } : { why: "together" };
  }
  return { why: unit.superseded_by ? "superseded" : "never" };
}
