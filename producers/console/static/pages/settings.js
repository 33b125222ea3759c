// The settings in force of the process that answers, and where each is from.

import { html, useState } from "../vendor/htm-preact.js";
import { getSettings } from "../core/api.js";
import { Said, number } from "../core/format.js";
import { useLoad } from "../core/hooks.js";
import { Chip, Empty, Loaded, Table } from "../core/parts.js";
import { t } from "../core/texts.js";
import { OperatePage } from "./operate.js";

/** From what kind of place a value is, and the name there. */
function Origin({ text }) {
  const [kind, ...name] = text.split(" ");
  return html`<span>${kind} <code class="id block whole">${name.join(" ")}</code></span>`;
}

export function Settings() {
  const settings = useLoad(getSettings, []);
  const [word, setWord] = useState("");
  const [changed, setChanged] = useState(false);
  return html`<${OperatePage} now="settings">
    <${Loaded} of=${settings}>${(found) => {
      const fits = ({ key, origin }) => key.includes(word.trim().toLowerCase()) && !(changed && origin === "default");
      const shown = found.settings.filter(fits);
      const ignored = new Set(found.without_effect);
      return html`<form class="card filters" onSubmit=${(event) => event.preventDefault()}>
          <div class="fields dense">
            <div><label for="word">${t("settings.find")}</label><input id="word" value=${word} placeholder="api.console" onInput=${(event) => setWord(event.target.value)} /></div>
          </div>
          <label class="check"><input type="checkbox" checked=${changed} onChange=${(event) => setChanged(event.target.checked)} />${t("settings.changed")}</label>
          <p class="quiet">${t("settings.of", { process: found.process, n: number(shown.length), all: number(found.settings.length) })}</p>
        </form>
        ${shown.length === 0
          ? html`<${Empty} title=${t("settings.none")} />`
          : html`<div class="framed"><${Table} label=${t("operate.settings")} columns=${[t("settings.name"), t("settings.value"), t("settings.origin")]}
              rows=${shown.map((one) => [
                html`<code class="id strong whole">${one.key}</code> ${ignored.has(one.key) && html`<${Chip} kind="warn">${t("settings.ignored")}<//>`}`,
                one.value === null || one.value === "" ? html`<span class="quiet">–</span>` : html`<${Said} text=${String(one.value)} most=${300} />`,
                one.origin === "default" ? html`<span class="quiet">${t("settings.default")}</span>` : html`<${Origin} text=${one.origin} />`,
              ])} /></div>`}`;
    }}<//>
  <//>`;
}
