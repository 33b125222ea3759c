// The banks that the key reaches.

import { html } from "../vendor/htm-preact.js";
import { listBanks } from "../core/api.js";
import { Moment, Named } from "../core/format.js";
import { linkTo } from "../core/hooks.js";
import { Chip, Empty, Page, Paged, Table } from "../core/parts.js";
import { t } from "../core/texts.js";

const PAGE = 50;

export function Memory() {
  const columns = [t("banks.name"), t("banks.scope"), t("banks.language"), t("banks.ends")];
  const rows = ({ banks }) =>
    banks.length
      ? [
          html`<${Table}
            label=${t("banks.title")}
            columns=${columns}
            rows=${banks.map((one) => [
              html`<a class="strong" href=${linkTo("bank", { bank: one.bank })}><${Named} name=${one.bank} /></a>`,
              html`<${Chip}>${t(`banks.scope.${one.scope}`)}<//>`,
              one.language,
              one.expires_at ? html`<${Moment} at=${one.expires_at} />` : html`<span class="quiet">${t("banks.never")}</span>`,
            ])}
          />`,
        ]
      : [];
  return html`<${Page} title=${t("banks.title")} lead=${t("banks.lead")}>
    <${Paged}
      load=${(cursor) => listBanks({ limit: PAGE, cursor })}
      keys=${[]}
      rows=${rows}
      empty=${html`<${Empty} title=${t("banks.empty")} help=${t("banks.empty.help")} />`}
    />
  <//>`;
}
