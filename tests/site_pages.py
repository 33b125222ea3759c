"""Hook of mkdocs: pages made from the code, and those that lie beside what they tell of. Nothing is written twice.

Links within the repository are kept: what a page links to by its path there, it links to by its place on the site.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from deploy.cli.app import COMMANDS, build_cli
from deploy.lab.build_dashboards import DASHBOARDS
from deploy.settings import Settings
from deploy.settings_layers import name_variable

ROOT = Path(__file__).parents[1]
#: Pages that lie elsewhere in the repository, by their place on the site.
ELSEWHERE = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "client.md": "producers/client/README.md",
    "contract-kit.md": "producers/contract_kit/GUIDE.md",
    "contributing.md": "CONTRIBUTING.md",
    "plugin-hooks.md": "producers/client/plugin/README.md",
    "roles.md": "store/ROLES.md",
    "schema.md": "store/SCHEMA.md",
    "security.md": "SECURITY.md",
}
SETTINGS_HEAD = (
    "A setting `api.port` is the variable `AFTERTURN_API__PORT`, or `port:` below `api:` in the file that "
    "`AFTERTURN_CONFIG` names. `afterturn config` shows those in force. Of a secret, `..._FILE` may name the file."
)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)((?:#[^)\s]*)?)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and the files that pages link to."""
    pages = dict(ELSEWHERE)
    pages |= {file.src_uri: f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")}
    linked = {name for source in pages.values() for name in _list_linked(source)} - set(pages.values())
    for place, source in (*ELSEWHERE.items(), *((f"source/{name}", name) for name in sorted(linked))):
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/settings.md", content=describe_settings()))
    files.append(File.generated(config, "reference/commands.md", content=describe_commands()))
    files.append(File.generated(config, "reference/dashboards.md", content=describe_dashboards()))
    return files


def _list_linked(source: str) -> Iterator[str]:
    """Yield the files of the repository that a page links to."""
    for found in LINK.finditer((ROOT / source).read_text(encoding="utf-8")):
        named = _resolve(found[1], source)
        if (ROOT / named).is_file() and not named.startswith("docs/"):
            yield named


def _resolve(target: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    del config, files
    place = page.file.src_uri
    source = ELSEWHERE.get(place, f"docs/{place}")
    return LINK.sub(lambda found: f"]({_relink(found[1], source, place)}{found[2]})", markdown)


def _relink(target: str, source: str, place: str) -> str:
    """Return where a link of a page leads on the site; one that leads nowhere stays, and fails the build."""
    named = _resolve(target, source)
    sites = {path: site for site, path in ELSEWHERE.items()}
    if not (ROOT / named).is_file():
        return target
    site = sites.get(named) or (named.removeprefix("docs/") if named.startswith("docs/") else f"source/{named}")
    return posixpath.relpath(site, posixpath.dirname(place) or ".")


def describe_settings() -> str:
    """Return the reference of all settings: key, variable, default, what it does; a section for each part."""
    lines = [
        "# Settings",
        "",
        SETTINGS_HEAD,
    ]
    part = ""
    for key, field in list_fields(Settings):
        head = key.rpartition(".")[0] or "general"
        if head != part:
            part = head
            lines += ["", f"## {part}", "", "| setting | default | what it does |", "|---|---|---|"]
        lines.append(
            f"| `{key}`<br>`{name_variable(key)}` | {_show_default(field)} | {_cell(field.description or '')} |"
        )
    return "\n".join([*lines, ""])


def list_fields(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting below a part as (dotted key, field): plain ones first, so that a part is one section."""
    nested = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            nested.append((f"{above}{name}.", field.annotation))
        else:
            yield above + name, field
    for prefix, inner in nested:
        yield from list_fields(inner, prefix)


def _show_default(field: FieldInfo) -> str:
    default = field.default
    if default is PydanticUndefined:
        return "none" if field.default_factory is dict else "by the machine"
    if isinstance(default, SecretStr) or default == "":
        return "not set"
    if isinstance(default, tuple):
        return _cell(", ".join(f"`{one}`" for one in default)) or "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`" if default is not None else "not set"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def describe_dashboards() -> str:
    """Return what each dashboard shows: its panels, their units and expressions."""
    lines = ["# Dashboards", "", "What `deploy/grafana` shows, over the rules of `deploy/prometheus`."]
    for dashboard in DASHBOARDS:
        lines += ["", f"## {dashboard.title}", "", "| panel | unit | expression |", "|---|---|---|"]
        for panel in dashboard.panels:
            about = f"<br>{_cell(panel.about)}" if panel.about else ""
            lines.append(f"| {_cell(panel.title)}{about} | {panel.unit} | `{_cell(panel.expression)}` |")
    return "\n".join([*lines, ""])


def describe_commands() -> str:
    """Return the reference of all commands: promise, usage, arguments and options, as `--help` has them."""
    lines = [
        "# Commands",
        "",
        "`afterturn COMMAND --help` says the same. Panels: Run, Memory, Operate, Data, Prove.",
        "",
    ]
    for name, command in COMMANDS.items():
        if command.hands_on:
            lines += [
                f"## {name}",
                "",
                command.help,
                "",
                "Its arguments are those of the program that it hands on to.",
                "",
            ]
        else:
            found: Any = typer.main.get_command(build_cli(name))
            lines += _describe_command(found.commands[name], f"afterturn {name}", 2)
    return "\n".join(lines)


def _describe_command(command: Any, path: str, level: int) -> list[str]:
    usage = path.removeprefix("afterturn ")
    lines = [f"{'#' * level} {usage}", "", _clean(command.help or ""), ""]
    children = getattr(command, "commands", None)
    if children:
        for name, child in children.items():
            lines += _describe_command(child, f"{path} {name}", level + 1)
        return lines
    taken = [one for one in command.params if one.name != "help" and not getattr(one, "hidden", False)]
    if taken:
        lines += ["| argument or option | what it does |", "|---|---|"]
        lines += [f"| {_name_parameter(one)} | {_cell(_clean(getattr(one, 'help', None) or ''))} |" for one in taken]
        lines.append("")
    return lines


def _name_parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or str(parameter.name).upper()}`"
    return ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))


def _clean(text: str) -> str:
    """Return help as Markdown: no signs that typer formats by."""
    return text.replace("\b", "").replace("\f", "").replace("<", "&lt;")
