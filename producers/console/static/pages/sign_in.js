import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { session, signIn } from "../core/api.js";
import { Prose } from "../core/format.js";
import { ICON } from "../core/icons.js";
import { Failure } from "../core/parts.js";
import { t } from "../core/texts.js";

/** The code of a one-time link, taken out of the address at once. */
export function takeLink() {
  const found = /^#link=([\w-]+)$/.exec(location.hash);
  if (found) history.replaceState(null, "", location.pathname);
  return found && found[1];
}

/** A field for a key. It is sent once, and `done` is told who is signed in then. */
export function KeyForm({ label, link, note, done, children }) {
  const field = useRef();
  const [state, set] = useState({ busy: Boolean(link) });
  const enter = async (body) => {
    set({ busy: true });
    try {
      const { session: half, ...who } = await signIn(body);
      session.keep(half);
      done(who);
    } catch (error) {
      set({ error });
    }
  };
  useEffect(() => {
    if (link) enter({ link });
    else field.current?.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const key = field.current.value.trim();
    if (key) enter({ key });
  };
  return html`<form class="card key-form" onSubmit=${submit}>
    ${note && !state.error && html`<p role="status">${note}</p>`}
    <label for="key">${label}</label>
    <input id="key" ref=${field} type="password" autocomplete="off" spellcheck=${false} required disabled=${state.busy} />
    ${state.error && html`<${Failure} error=${state.error} />`}
    <button type="submit" class="primary" disabled=${state.busy}>${t(state.busy ? "in.busy" : "in.title")}</button>
    ${children}
  </form>`;
}

export function SignIn({ link, ended, done }) {
  useEffect(() => void (document.title = `${t("in.title")} · Afterturn`), []);
  return html`<main class="sign-in" id="content">
    <img src=${ICON} alt="" width="56" height="56" />
    <h1>Afterturn</h1>
    <p class="lead">${t("in.lead")}</p>
    <${KeyForm} label=${t("in.key")} link=${link} note=${ended && t("in.ended")} done=${done}>
      <p class="quiet"><${Prose} text=${t("in.help")} /></p>
    <//>
  </main>`;
}

/** What stands in place of a page for which a key of another kind is needed. */
export const KeyNeeded = ({ kind, join }) => html`<div class="empty">
  <p class="empty-title">${t(`need.${kind}`)}</p>
  <p><${Prose} text=${t(`need.${kind}.help`)} /></p>
  <${KeyForm} label=${t(`need.${kind}.key`)} done=${join} />
</div>`;
