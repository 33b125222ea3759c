// Icons of the navigation, drawn in 20 by 20: they repeat what the words beside them say.

import { html } from "../vendor/htm-preact.js";

/** The address of the product's own icon. */
export const ICON = new URL("../icon.svg", import.meta.url).pathname;

const PATHS = {
  now: "M2.5 10h3l2.5-6 4 12 2.5-6h3",
  work: "M3 5h3M3 10h3M3 15h3M9 5h8M9 10h8M9 15h8",
  memory: "M4 5.5C4 4.1 6.7 3 10 3s6 1.1 6 2.5S13.3 8 10 8 4 6.9 4 5.5zm0 0v9C4 15.9 6.7 17 10 17s6-1.1 6-2.5v-9M4 10c0 1.4 2.7 2.5 6 2.5s6-1.1 6-2.5",
  recall: "M8.5 14.5a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM13 13l4.5 4.5",
  people: "M10 9.5a3.25 3.25 0 1 0 0-6.5 3.25 3.25 0 0 0 0 6.5zM3.5 17c.5-3.3 3.2-5 6.5-5s6 1.7 6.5 5",
  operate: "M3 6h7M14 6h3M3 14h3M10 14h7M12 4v4M8 12v4",
};

export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d=${PATHS[name]}></path></svg>`;
