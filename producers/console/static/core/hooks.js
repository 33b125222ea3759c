// State that several components use: loading with an end, the address, and whether content is shown.

import { useEffect, useState, useCallback, useRef } from "../vendor/htm-preact.js";

/** Load by a function: { value, error, loading, reload }. What an earlier call answers late is dropped. */
export function useLoad(load, keys) {
  const [state, set] = useState({});
  const turn = useRef(0);
  const reload = useCallback(async () => {
    const mine = ++turn.current;
    let next;
    try {
      next = { value: await load() };
    } catch (error) {
      next = { error };
    }
    if (mine === turn.current) set({ ...next, of: reload });
  }, keys);
  useEffect(() => {
    reload();
    return () => void turn.current++;
  }, [reload]);
  // What was loaded for other keys is not shown for these.
  return state.of === reload ? { ...state, reload } : { loading: true, reload };
}

/** The address behind the #: { page, query }. It never leaves the browser. */
export function readAddress() {
  const [page, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: page || "memory", query: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function linkTo(page, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(set).toString();
  return `#/${page}${search ? `?${search}` : ""}`;
}

export function useAddress() {
  const [address, set] = useState(readAddress);
  useEffect(() => {
    const changed = () => set(readAddress());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

// Whether content is shown: for this page's life alone, so that a reload hides it again.
let shown = false;
const watchers = new Set();
export function showContent(yes) {
  shown = yes;
  watchers.forEach((watch) => watch(yes));
}
export function useContentShown() {
  const [now, set] = useState(shown);
  useEffect(() => {
    watchers.add(set);
    return () => watchers.delete(set);
  }, []);
  return now;
}
