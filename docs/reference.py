"""The reference pages' tables, made of the code that they describe; `benchmarks.readme` writes them between the pages' marks.

In: the declarations of stages, of config.yaml's sections, of errors, figures and commands. Out: Markdown, without a heading above level 2.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

import proxy.errors
from docs import openapi
from docs.schemas import attribute_docs
from proxy.__main__ import _parser
from proxy.cli.explain import option_rows, summary
from proxy.config import settings
from proxy.config.alerts import Channel, RuleSettings, WeeklySettings
from proxy.config.sections import (
    DecisionsSettings,
    EmbeddingSettings,
    GroundingSettings,
    KnowledgeSettings,
    LoggingSettings,
    TracingSettings,
)
from proxy.observe.metrics.families import DOTTED, FAMILIES, GAUGES, prometheus_name
from proxy.ports.stage import Stage, StageOptions
from proxy.stages.registry import STAGES
from proxy.wire.http.headers import PREFIX, REQUEST, RESPONSE
from proxy.wire.translation import chat_requests, gemini_requests, messages_requests, responses_requests
from proxy.wire.translation.fields import Field
from proxy.wire.translation.translate import APIS, TITLES

SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("server", settings.ServerSettings),
    ("store", settings.StoreSettings),
    ("upstreams.NAME, of every kind", settings._Upstream),
    *((f"upstreams.NAME, kind: {kind.__struct_config__.tag}", kind) for kind in get_args(settings.UpstreamSettings)),
    ("upstreams.NAME.timeouts", settings.Timeouts),
    ("upstreams.NAME.retries", settings.Retries),
    ("upstreams.NAME.decisions", DecisionsSettings),
    ("routes, a list", settings.RouteSettings),
    ("keys, a list", settings.KeySettings),
    ("keys[].limits, and teams.NAME", settings.Limits),
    ("limits", settings.LimitSettings),
    ("models.NAME", settings.ModelSettings),
    ("embeddings", EmbeddingSettings),
    ("grounding", GroundingSettings),
    ("knowledge", KnowledgeSettings),
    ("cors", settings.CorsSettings),
    ("mcp", settings.McpSettings),
    ("mcp.servers.NAME", settings.McpServerSettings),
    ("alerts", settings.AlertSettings),
    *((f"alerts.channels.NAME, kind: {kind.__struct_config__.tag}", kind) for kind in get_args(Channel)),
    ("alerts.rules, a list", RuleSettings),
    ("alerts.weekly", WeeklySettings),
    ("logging", LoggingSettings),
    ("tracing", TracingSettings),
)
"""Every mapping of config.yaml, in the order of the page."""
_PLAIN = {str: "text", int: "number", float: "number", bool: "true or false", type(None): "null"}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar in a cell is escaped."""
    lines = (heads, ["---"] * len(heads), *rows)
    return "\n".join("| " + " | ".join(re.sub(r"(?<!\\)\|", r"\|", cell) for cell in line) + " |" for line in lines)


def response_headers() -> str:
    """What comes back: the server's own headers and those that stages declare."""
    every = {**RESPONSE} | {header.name: header.meaning for stage in STAGES for header in stage.headers}
    return table(["header", "value"], ([f"`{PREFIX}{name}`", meaning] for name, meaning in every.items()))


def request_headers() -> str:
    """What a client may send."""
    return table(["header", "meaning"], ([f"`{PREFIX}{name}`", text] for name, text in REQUEST.items()))


def stages() -> str:
    """A section for each stage: what it does, needs and reports, and its options; then the options that all share."""
    shared = _option_rows(StageOptions)
    intro = "A stage with another default, or another meaning, lists the option itself."
    return "\n\n".join([*(_stage(stage, shared) for stage in STAGES), "## Every stage", intro, _options(shared)])


def _stage(stage: type[Stage], shared: Sequence[tuple[str, str, str]]) -> str:
    told = {
        "Needs": stage.requires,
        "Provides": stage.assigns,
        "Changes": stage.changes,
        "Offers the model": stage.answers,
        "Headers": (*(f"{PREFIX}{header.name}" for header in stage.headers), *(name for name in stage.reports if name.startswith(PREFIX))),
        "Warning codes": tuple(code for code in stage.reports if not code.startswith(PREFIX)),
    }
    lines = [f"- {word}: {', '.join(f'`{value}`' for value in values)}" for word, values in told.items() if values]
    rows = [row for row in option_rows(stage) if row not in shared]
    parts = [f"## {stage.name}", summary(stage), "\n".join(lines), _options(rows) if rows else "No options of its own."]
    return "\n\n".join(part for part in parts if part)


def _option_rows(options: type[Struct]) -> list[tuple[str, str, str]]:
    class Alone:
        Options = options

    return option_rows(Alone)  # type: ignore[arg-type]


def _options(rows: Iterable[tuple[str, str, str]]) -> str:
    return table(["option", "default", "meaning"], ([f"`{name}`", f"`{default}`", text] for name, default, text in rows))


def config_keys() -> str:
    """A table for each mapping of config.yaml."""
    return "\n\n".join(_section(name, kind) for name, kind in SECTIONS)


def _section(name: str, kind: type[Struct]) -> str:
    common = set(settings._Upstream.__struct_fields__) if issubclass(kind, settings._Upstream) and kind is not settings._Upstream else set()
    said = attribute_docs(kind)
    rows = [
        [f"`{field.name}`", _type(field.type), _default(field), _plain(said.get(field.name, ""))]
        for field in msgspec.structs.fields(kind)
        if field.name not in common
    ]
    intro = [] if name.startswith("upstreams") and "kind" not in name else [_plain(kind.__doc__ or "")]
    intro = [text for text in intro if not re.fullmatch(r"`[\w.\[\]]+:?`", text)]
    return "\n\n".join([f"## {name}", *intro, table(["key", "type", "default", "meaning"], rows)])


def _plain(docstring: str) -> str:
    return re.sub(r"``", "`", " ".join(docstring.split()))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "needed"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default  # type: ignore[operator, misc]
    if isinstance(value, Struct):
        return "see below"
    if isinstance(value, (tuple, list)):
        return "`[" + ", ".join(map(str, value)) + "]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    return {None: "`null`", "": "empty"}.get(value if isinstance(value, str | None) else 0, f"`{value}`")  # type: ignore[arg-type]


def _type(kind: Any) -> str:
    """An annotation in words."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if meta := getattr(kind, "__metadata__", None):
        return " ".join([_type(kind.__origin__), *filter(None, map(_bounds, meta))])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return "mapping"
    if origin is tuple or origin is list:
        return "list"
    return "mapping" if "Mapping" in str(origin) or origin is dict else " or ".join(dict.fromkeys(map(_type, parts)))


def _bounds(meta: msgspec.Meta) -> str:
    words = (("gt", "above"), ("ge", "from"), ("lt", "below"), ("le", "to"))
    told = [f"{word} {value}" for name, word in words if (value := getattr(meta, name)) is not None]
    return " ".join([*told, *([f"that matches `{meta.pattern}`"] if meta.pattern else [])])


def errors() -> str:
    """The errors that end a request, by their statuses."""
    kinds = [kind for kind in _subclasses(proxy.errors.ProxyError) if kind.code != "upstream_unreachable" or "code" in vars(kind)]
    kinds.sort(key=lambda kind: (kind.status, kind.code))
    return table(
        ["status", "`code`", "`type`", "when"],
        ([str(kind.status), f"`{kind.code}`", f"`{kind.type}`", _plain((kind.__doc__ or "").partition("\n\n")[0])] for kind in kinds),
    )


def _subclasses(kind: type[proxy.errors.ProxyError]) -> Iterator[type[proxy.errors.ProxyError]]:
    for made in kind.__subclasses__():
        if made.__module__ == proxy.errors.__name__:
            yield made
        yield from _subclasses(made)


def metrics() -> str:
    """Every family, gauge and counter of `/metrics`, each under the name that a query has."""
    families = (
        [f"`{f.name}{'' if f.edges else '_total'}`", "histogram" if f.edges else "counter", ", ".join(f"`{n}`" for n in f.labels), f.help]
        for f in FAMILIES
    )
    gauges = ([f"`{name}`", "gauge", "", meaning] for name, meaning, _ in GAUGES)
    counters = ([f"`{prometheus_name(name)}_total`", f"`{name}`", meaning] for name, meaning in sorted(DOTTED.items()))
    labelled = table(["name", "kind", "labels", "meaning"], [*families, *gauges])
    return f"## With labels\n\n{labelled}\n\n## Plain counters\n\n{table(['name', 'in the JSON', 'counts'], counters)}"


def commands() -> str:
    """Each subcommand with its arguments."""
    return "\n\n".join(_command(name, parser, said) for name, parser, said in subcommands(_parser(), "groundwire"))


def subcommands(parser: argparse.ArgumentParser, prefix: str) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """The commands that do something: with their whole name, their parser and the line that says what they do."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, made in action.choices.items():
                deeper = list(subcommands(made, f"{prefix} {name}"))
                yield from deeper or [(f"{prefix} {name}", made, said.get(name, ""))]


def _command(name: str, parser: argparse.ArgumentParser, said: str) -> str:
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        shown = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        choices = f" ({', '.join(map(str, action.choices))})" if action.choices else ""
        rows.append([f"`{shown}`", f"{action.help or ''}{choices}".strip()])
    parts = [f"## {name}", said[:1].upper() + said[1:] + ".", table(["argument", "meaning"], rows) if rows else ""]
    if parser.epilog:
        examples = textwrap.dedent(parser.epilog.partition("\n")[2]).strip()
        parts.append(f"```sh\n{examples}\n```")
    return "\n\n".join(part for part in parts if part)


def translation() -> str:
    """Which field of each API says the same."""
    tables = [module.FIELDS for module in (chat_requests, responses_requests, messages_requests, gemini_requests)]
    settings = dict.fromkeys(field.setting for fields in tables for field in fields if field.setting)
    shared = [w for w in settings if sum(any(field.setting == w for field in fields) for fields in tables) > 1]
    rows = [[_names(fields, setting) for fields in tables] for setting in shared]
    return table([TITLES[api] for api in APIS], rows)


def _names(fields: Iterable[Field], setting: str) -> str:
    """A cell: the fields of one API that say something, and what is to be known of that."""
    found = [field for field in fields if field.setting == setting]
    notes = "; ".join(field.note for field in found if field.note)
    named = ", ".join(f"`{field.name}`" for field in found) or "refused"
    return f"{named} ({notes})" if notes else named


def left_out() -> str:
    """Fields that say nothing to an answer."""
    tables = {
        "chat": chat_requests.FIELDS,
        "responses": responses_requests.FIELDS,
        "messages": messages_requests.FIELDS,
        "gemini": gemini_requests.FIELDS,
    }
    rows = [[TITLES[api], f"`{one.name}`", one.note] for api in APIS for one in tables[api] if not one.setting]
    return table(["API", "field", "what it is"], rows)


TABLES = {
    "translation": translation,
    "translation-left-out": left_out,
    "response-headers": response_headers,
    "request-headers": request_headers,
    "stages": stages,
    "config": config_keys,
    "errors": errors,
    "metrics": metrics,
    "commands": commands,
    "operations": openapi.table,
}
