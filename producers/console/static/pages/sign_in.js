import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { session, signIn } from "../core/api.js";
import { Prose } from "../core/format.js";
import { Failure } from "../core/parts.js";
import { t } from "../core/texts.js";

/** The code of a one-time link, taken out of the address at once. */
export function takeLink() {
  const found = /^#link=([\w-]+)$/.exec(location.hash);
  if (found) history.replaceState(null, "", location.pathname);
  return found && found[1];
}

export function SignIn({ link, ended, done }) {
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
    document.title = `${t("in.title")} · Afterturn`;
    if (link) enter({ link });
    else field.current?.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const key = field.current.value.trim();
    if (key) enter({ key });
  };
  return html`<main class="sign-in" id="content">
    <img src="/console/assets/icon.svg" alt="" width="56" height="56" />
    <h1>Afterturn</h1>
    <p class="lead">${t("in.lead")}</p>
    <form class="card" onSubmit=${submit}>
      ${ended && !state.error && html`<p role="status">${t("in.ended")}</p>`}
      <label for="key">${t("in.key")}</label>
      <input id="key" ref=${field} type="password" autocomplete="off" spellcheck=${false} required disabled=${state.busy} />
      ${state.error && html`<${Failure} error=${state.error} />`}
      <button type="submit" class="primary" disabled=${state.busy}>${t(state.busy ? "in.busy" : "in.title")}</button>
      <p class="quiet"><${Prose} text=${t("in.help")} /></p>
    </form>
  </main>`;
}
