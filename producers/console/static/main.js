// The console: who is signed in, the pages, and what stands around them.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { NoAnswer, onSessionEnd, session, signOut, whoIsSignedIn } from "./core/api.js";
import { Named } from "./core/format.js";
import { linkTo, showContent, useAddress, useContentShown } from "./core/hooks.js";
import { ICON, Icon } from "./core/icons.js";
import { Chip, Failure, Guarded, Loading, Page } from "./core/parts.js";
import { LANGUAGES, chooseLanguage, language, t } from "./core/texts.js";
import { Around } from "./pages/around.js";
import { Audit } from "./pages/audit.js";
import { Bank } from "./pages/bank.js";
import { Doctor } from "./pages/doctor.js";
import { Document } from "./pages/document.js";
import { Erasure } from "./pages/erasure.js";
import { Job } from "./pages/job.js";
import { Letters } from "./pages/letters.js";
import { Memory } from "./pages/memory.js";
import { Now } from "./pages/now.js";
import { Operate } from "./pages/operate.js";
import { People } from "./pages/people.js";
import { Person } from "./pages/person.js";
import { Recall } from "./pages/recall.js";
import { Session } from "./pages/session.js";
import { Settings } from "./pages/settings.js";
import { KeyNeeded, SignIn, takeLink } from "./pages/sign_in.js";
import { Targets } from "./pages/targets.js";
import { Tenant } from "./pages/tenant.js";
import { Turn } from "./pages/turn.js";
import { Unit } from "./pages/unit.js";
import { Vectors } from "./pages/vectors.js";
import { Work } from "./pages/work.js";

/**
 * Each page by its name in the address: the entry of the navigation that it belongs to, and the kind of key it needs.
 * `stays`: it goes on while its query changes; others begin anew, with the focus on their heading.
 */
const PAGES = {
  memory: { view: Memory, under: "memory", needs: "tenant" },
  bank: { view: Bank, under: "memory", needs: "tenant" },
  session: { view: Session, under: "memory", needs: "tenant" },
  turn: { view: Turn, under: "memory", needs: "tenant" },
  document: { view: Document, under: "memory", needs: "tenant" },
  unit: { view: Unit, under: "memory", needs: "tenant" },
  recall: { view: Recall, under: "recall", needs: "tenant" },
  people: { view: People, under: "people", needs: "tenant" },
  person: { view: Person, under: "people", needs: "tenant" },
  around: { view: Around, under: "people", needs: "tenant" },
  work: { view: Work, under: "work", needs: "operator", stays: true },
  letters: { view: Letters, under: "work", needs: "operator", stays: true },
  job: { view: Job, under: "work", needs: "operator" },
  now: { view: Now, under: "now", needs: "operator" },
  operate: { view: Operate, under: "operate", needs: "operator" },
  tenant: { view: Tenant, under: "operate", needs: "operator" },
  targets: { view: Targets, under: "operate", needs: "operator", stays: true },
  vectors: { view: Vectors, under: "operate", needs: "operator" },
  audit: { view: Audit, under: "operate", needs: "operator", stays: true },
  settings: { view: Settings, under: "operate", needs: "operator" },
  doctor: { view: Doctor, under: "operate", needs: "operator" },
  erasure: { view: Erasure, under: "operate", needs: "tenant" },
};
const NAVIGATION = ["memory", "recall", "people", "work", "now", "operate"];
const THEME = "afterturn.theme";
const THEMES = ["auto", "light", "dark"];

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function Chosen({ id, label, now, options, choose }) {
  return html`<div class="chosen">
    <label for=${id}>${label}</label>
    <select id=${id} value=${now} onChange=${(event) => choose(event.target.value)}>
      ${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
    </select>
  </div>`;
}

function Preferences() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) || "auto");
  const choose = (next) => {
    localStorage.setItem(THEME, next);
    applyTheme(next);
    setTheme(next);
  };
  return html`<div class="preferences">
    <${Chosen} id="theme" label=${t("app.theme")} now=${theme} choose=${choose} options=${THEMES.map((one) => [one, t(`app.theme.${one}`)])} />
    <${Chosen} id="language" label=${t("app.language")} now=${language} choose=${chooseLanguage} options=${Object.entries(LANGUAGES)} />
  </div>`;
}

function Who({ who }) {
  const limits = [
    who.user && t("who.user", { name: who.user }),
    who.agent && t("who.agent", { name: who.agent }),
    who.tenant && !who.write && t("who.reads"),
  ].filter(Boolean);
  return html`<div class="who">
    ${who.tenant &&
    html`<p><span class="quiet">${t("who.tenant")}</span> <strong><${Named} name=${who.tenant} /></strong></p>
      ${who.label && html`<p class="quiet"><${Named} name=${who.label} /></p>`}`}
    ${who.operator && html`<p><${Chip}>${t("who.operator")}<//></p>`}
    ${limits.length > 0 && html`<p class="quiet"><${Named} name=${limits.join(" · ")} /></p>`}
  </div>`;
}

function View({ found, who, query, join }) {
  if (!found) return html`<${Page} title=${t("app.unknown")}><a class="button" href=${linkTo("memory")}>${t("nav.memory")}</a><//>`;
  if (!who[found.needs])
    return html`<${Page} title=${t(`nav.${found.under}`)}><${KeyNeeded} kind=${found.needs} join=${join} /><//>`;
  return html`<${found.view} who=${who} query=${query} />`;
}

function Shell({ who, join, leave }) {
  const { page, query } = useAddress();
  const shown = useContentShown();
  const found = PAGES[page];
  const key = found?.stays ? page : location.hash;
  return html`<a class="skip" href="#content" onClick=${(event) => {
      event.preventDefault();
      document.querySelector("h1")?.focus();
    }}>${t("app.skip")}</a>
    <header class="side">
      <a class="brand" href=${linkTo("memory")}><img src=${ICON} alt="" width="28" height="28" />Afterturn</a>
      <nav aria-label=${t("app.nav")}>
        ${NAVIGATION.map((name) => html`<a href=${linkTo(name)} aria-current=${found?.under === name ? "page" : undefined}><${Icon} name=${name} />${t(`nav.${name}`)}</a>`)}
      </nav>
      ${shown && html`<button type="button" class="small" onClick=${() => showContent(false)}>${t("gate.hide")}</button>`}
    </header>
    <main id="content">
      <${Guarded} key=${key}>
        <${View} found=${found} who=${who} query=${query} join=${join} />
      <//>
    </main>
    <footer class="account">
      <${Who} who=${who} />
      <${Preferences} />
      <button type="button" class="small" onClick=${leave}>${t("out.button")}</button>
    </footer>`;
}

const link = takeLink();

function Console() {
  const [state, set] = useState({ loading: !link && Boolean(session.half()) });
  const look = async () => {
    set({ loading: true });
    try {
      set({ who: await whoIsSignedIn() });
    } catch (error) {
      set(error instanceof NoAnswer ? { error } : { ended: true });
    }
  };
  useEffect(() => {
    onSessionEnd(() => set({ ended: true }));
    if (state.loading) look();
  }, []);
  const leave = async () => {
    try {
      await signOut();
    } finally {
      session.forget();
      showContent(false);
      set({});
    }
  };
  if (state.loading) return html`<main class="sign-in"><${Loading} /></main>`;
  if (state.error) return html`<main class="sign-in"><${Failure} error=${state.error} retry=${look} /></main>`;
  if (state.who) return html`<${Shell} who=${state.who} join=${(who) => set({ who })} leave=${leave} />`;
  return html`<${SignIn} link=${link} ended=${state.ended} done=${(who) => set({ who })} />`;
}

applyTheme(localStorage.getItem(THEME) || "auto");
render(html`<${Console} />`, document.getElementById("console"));
