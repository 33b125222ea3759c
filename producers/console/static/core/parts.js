// What every page is made of.

import { html, Component, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ApiError, NoAnswer } from "./api.js";
import { Prose } from "./format.js";
import { linkTo, showContent, useContentShown, useLoad } from "./hooks.js";
import { t } from "./texts.js";

/** A page: its title, which has the focus after a move, what stands beside it, and the content. */
export function Page({ title, lead, beside, crumbs, children }) {
  const heading = useRef();
  useEffect(() => {
    document.title = `${document.querySelector("h1")?.textContent || ""} · Afterturn`;
    heading.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, []);
  return html`<article class="page">
    ${crumbs && html`<nav class="crumbs" aria-label=${t("app.nav")}>${crumbs.map(
      ({ text, to }) => html`<a href=${to}>${text}</a><span aria-hidden="true">›</span>`,
    )}</nav>`}
    <header class="page-head">
      <div>
        <h1 tabindex="-1" ref=${heading}>${title}</h1>
        ${lead && html`<p class="lead">${lead}</p>`}
      </div>
      ${beside && html`<div class="beside">${beside}</div>`}
    </header>
    ${children}
  </article>`;
}

export const Loading = () => html`<p class="loading" role="status"><span class="pulse"></span>${t("app.loading")}</p>`;

/** What an error says: the API's own words, its code, and the id that leads to its line in the log. */
export function Failure({ error, retry }) {
  const api = error instanceof ApiError;
  const words = api ? error.message : error.words || t(error instanceof NoAnswer ? `error.${error.message}` : "error.page");
  const problems = api && Array.isArray(error.details.problems) ? error.details.problems : [];
  return html`<div class="failure" role="alert">
    <strong>${t("error.title")}</strong>
    <p>${words}</p>
    ${problems.length > 0 &&
    html`<ul>
      ${problems.map((one) => html`<li><code>${one.field ?? ""}</code> ${one.message ?? one.problem ?? ""}</li>`)}
    </ul>`}
    ${api && html`<p class="quiet">${error.code}${error.requestId && ` · ${t("error.request", { id: error.requestId })}`}</p>`}
    ${retry && html`<button type="button" onClick=${retry}>${t("app.retry")}</button>`}
  </div>`;
}

/** What is loaded, once it is there; what was there stays while it loads anew. */
export function Loaded({ of, children }) {
  if (of.error) return html`<${Failure} error=${of.error} retry=${of.reload} />`;
  if (of.value === undefined) return html`<${Loading} />`;
  return children(of.value);
}

export const Empty = ({ title, help, children }) => html`<div class="empty">
  <p class="empty-title">${title}</p>
  ${help && html`<p><${Prose} text=${help} /></p>`}
  ${children}
</div>`;

export const Chip = ({ kind, children }) => html`<span class=${`chip ${kind || ""}`}>${children}</span>`;
export const Status = ({ of }) => html`<${Chip} kind=${`status-${of}`}>${t(`status.${of}`)}<//>`;

/** A list that pages on the server; `load(cursor)` returns one page, `rows(page)` shows it. */
export function Paged({ load, keys, empty, rows }) {
  const [cursors, setCursors] = useState([null]);
  useEffect(() => setCursors([null]), keys);
  const cursor = cursors[cursors.length - 1];
  const page = useLoad(() => load(cursor), [...keys, cursor]);
  return html`<${Loaded} of=${page}>${(found) => {
    const shown = rows(found);
    return html`${shown.length ? shown : empty}
      ${(cursors.length > 1 || found.has_more) &&
      html`<nav class="pager" aria-label=${t("app.page", { n: cursors.length })}>
        <button type="button" disabled=${cursors.length === 1} onClick=${() => setCursors(cursors.slice(0, -1))}>
          ${t("app.previous")}
        </button>
        <span class="quiet">${t("app.page", { n: cursors.length })}</span>
        <button type="button" disabled=${!found.has_more} onClick=${() => setCursors([...cursors, found.cursor])}>
          ${t("app.next")}
        </button>
      </nav>`}`;
  }}<//>`;
}

/** A table whose cells name their columns where the window is narrow. */
export const Table = ({ columns, rows, label }) => html`<table aria-label=${label}>
  <thead>
    <tr>
      ${columns.map((name) => html`<th scope="col">${name}</th>`)}
    </tr>
  </thead>
  <tbody>
    ${rows.map((cells) => html`<tr>
      ${cells.map((cell, place) => html`<td data-column=${columns[place]}><div>${cell}</div></td>`)}
    </tr>`)}
  </tbody>
</table>`;

export const Tabs = ({ items, now, label }) => html`<nav class="tabs" aria-label=${label}>
  ${items.map(
    ({ id, text, to }) => html`<a href=${to} aria-current=${id === now ? "page" : undefined}>${text}</a>`,
  )}
</nav>`;

/** Content behind a question: it is not asked of the API before it is wanted. */
export function Gate({ children }) {
  const shown = useContentShown();
  if (shown) return children;
  return html`<${Empty} title=${t("gate.title")} help=${t("gate.lead")}>
    <button type="button" class="primary" onClick=${() => showContent(true)}>${t("gate.show")}</button>
  <//>`;
}

/** A change that is told before it is made. `act` makes it and returns what to say; an error stays in the dialog. */
export function Change({ title, act, verb, danger, blocked, close, done, children }) {
  const box = useRef();
  const [state, set] = useState({});
  useEffect(() => box.current.showModal(), []);
  const submit = async (event) => {
    event.preventDefault();
    set({ busy: true });
    try {
      const said = await act();
      box.current.close();
      done(said);
    } catch (error) {
      set({ error });
    }
  };
  return html`<dialog ref=${box} onClose=${close} aria-label=${title}>
    <form onSubmit=${submit}>
      <h2>${title}</h2>
      ${children}
      ${state.error && html`<${Failure} error=${state.error} />`}
      <div class="actions">
        <button type="button" onClick=${() => box.current.close()}>${t("app.cancel")}</button>
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${state.busy || blocked}>${verb}</button>
      </div>
    </form>
  </dialog>`;
}

/** A button that copies a text. */
export function Copy({ text }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 2000);
  };
  return html`<button type="button" class="small" onClick=${copy}>${t(done ? "app.copied" : "app.copy")}</button>`;
}

/** A part of a page whose fault does not take the rest with it. */
export class Guarded extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }
  render({ children }, { error }) {
    return error ? html`<${Failure} error=${error} />` : children;
  }
}

export const bankCrumb = (bank) => ({ text: bank, to: linkTo("bank", { bank }) });
