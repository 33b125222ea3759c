// Server-sent events over `fetch`: an EventSource cannot send the page's half of the session.

import { ApiError, openEvents } from "./api.js";

const AGAIN_MS = 2000;
// The service says every 15 s that it is there: a stream that says nothing for so long is broken.
const SILENT_MS = 40_000;

/**
 * A stream that is read while it runs: `tell(data)` for each event, `broke(error)` for each break. After a break, and
 * after `stop` and `start`, it goes on behind the last event. What the service refuses is not asked again.
 */
export class EventStream {
  #last = null;
  #running = null;

  constructor(path, { tell, broke }) {
    Object.assign(this, { path, tell, broke });
  }

  start() {
    if (this.#running) return;
    this.#running = new AbortController();
    this.#run(this.#running.signal);
  }

  stop() {
    this.#running?.abort();
    this.#running = null;
  }

  async #run(over) {
    while (!over.aborted) {
      try {
        await this.#read(over);
      } catch (error) {
        if (over.aborted) return;
        this.broke(error);
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) return;
      }
      await new Promise((go) => setTimeout(go, AGAIN_MS));
    }
  }

  async #read(over) {
    const silent = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENT_MS);
    };
    heard();
    try {
      const signal = AbortSignal.any([over, silent.signal]);
      for await (const { id, data } of readEvents(await openEvents(this.path, { last: this.#last, signal }), heard)) {
        if (over.aborted) return;
        this.#last = id || this.#last;
        this.tell(JSON.parse(data));
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Yield the events of a stream: { id, data }. `heard` is called for all that arrives, comments included. */
async function* readEvents(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const blocks = (kept + value).split("\n\n");
    kept = blocks.pop();
    for (const block of blocks) {
      const found = Object.fromEntries(block.split("\n").map((line) => line.match(/^(\w*): ?(.*)$/)?.slice(1) || ["", ""]));
      if (found.data) yield found;
    }
  }
}
