// What the pages of work share: their tabs, and changing all that match.

import { html, useState } from "../vendor/htm-preact.js";
import { number } from "./format.js";
import { linkTo } from "./hooks.js";
import { Tabs } from "./parts.js";
import { t } from "./texts.js";

const TABS = ["work", "letters"];

export const WorkTabs = ({ now }) =>
  html`<${Tabs} label=${t("nav.work")} now=${now} items=${TABS.map((id) => ({ id, text: t(`${id}.title`), to: linkTo(id) }))} />`;

/** Count what matches when it is asked for, since all of it is read. `say` tells what `count` found. */
export function Count({ count, say }) {
  const [state, set] = useState({});
  const ask = async () => {
    set({ busy: true });
    try {
      set({ found: await count() });
    } catch (error) {
      set({ error });
    }
  };
  if (state.error) return html`<span role="alert">${state.error.message}</span>`;
  if (!state.found) return html`<button type="button" disabled=${state.busy} onClick=${ask}>${t("work.count")}</button>`;
  return html`<span role="status">${say(state.found)}</span>`;
}

/** Change all that were counted by `change`; the server works at it for some seconds a call. `tell` is told how many. */
export async function changeAll(change, body, tell) {
  const told = { changed: 0, left: 0 };
  let cursor = null;
  do {
    const answer = await change({ ...body, cursor });
    told.changed += answer.changed;
    told.left += answer.left;
    cursor = answer.cursor;
    tell(told.changed + told.left);
  } while (cursor);
  return told;
}

/** What a change has done, in words. */
export const sayChanged = ({ changed, left }) => t(left ? "work.left" : "work.changed", { n: number(changed), left: number(left) });
