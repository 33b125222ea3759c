// People: the users of the banks, or a person by a name that is said in a bank.

import { html, useRef } from "../vendor/htm-preact.js";
import { listUsers } from "../core/api.js";
import { BankField, useBank } from "../core/banks.js";
import { Named } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Empty, Page, Paged, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

const PAGE = 50;

export function People() {
  const name = useRef();
  const bank = useBank();
  const look = (event) => {
    event.preventDefault();
    location.hash = linkTo("person", { name: name.current.value.trim(), bank: bank.bank.trim() });
  };
  const rows = ({ users }) =>
    users.length
      ? [
          html`<${Table}
            label=${t("people.users")}
            columns=${[t("people.user"), t("people.id")]}
            rows=${users.map((one) => [
              one.name
                ? html`<a class="strong" href=${linkTo("person", { user_id: one.name })}><${Named} name=${one.name} /></a>`
                : html`<span class="quiet">${t("people.unnamed")}</span>`,
              html`<code class="id">${one.user}</code>`,
            ])}
          />`,
        ]
      : [];
  return html`<${Page} title=${t("people.title")} lead=${t("people.lead")}>
    <form class="card" onSubmit=${look}>
      <div class="fields">
        <div><label for="name">${t("people.name")}</label><input id="name" ref=${name} required /></div>
        <${BankField} of=${bank} />
      </div>
      <button type="submit">${t("people.look")}</button>
    </form>
    <h2>${t("people.users")}</h2>
    <${Paged} load=${(cursor) => listUsers({ limit: PAGE, cursor })} keys=${[]} rows=${rows}
      empty=${html`<${Empty} title=${t("people.empty")} help=${t("people.empty.help")} />`} />
  <//>`;
}
