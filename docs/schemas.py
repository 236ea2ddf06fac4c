"""JSON Schemas (draft 2020-12) of config.yaml and of policies, made from the types that check them: editors complete and check by them.

    python -m docs.schemas      # writes schemas/, which is in the wheel; `groundwire init` puts it beside a config.yaml

The second lines of the shipped files name them for yaml-language-server.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from proxy.cli.explain import summary
from proxy.config.settings import Settings
from proxy.grounding.judging.questions import JudgeOptions, SecondOpinion
from proxy.policy.loading import DELIVERIES, LoadModels, Unknown
from proxy.ports.stage import StageOptions
from proxy.stages.registry import STAGES

FOLDER = Path(__file__).parents[1] / "schemas"
KINDS = ("config", "policy")
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
"""An environment variable may stand wherever config.yaml has a number or a yes or no."""
_SAID = {
    "name": "What clients and records call the policy.",
    "delivery": "How answers leave: whole after all checks (hold), sentence by sentence (gate), or as they come (tap).",
    "enforce": "false is shadow mode: it judges and records everything, and changes and blocks nothing.",
    "load_models": "When the weights that its stages use are read.",
    "retrieval_tools": "Tools whose results are passages; * stands for anything.",
    "judge": "Who is asked what a text means, beside exact rules and the built-in models.",
    "second_opinion": "The old name of a judge that is asked about what the built-in one is unsure of.",
    "stages": "In the order in which they run.",
    "unknown": "What of an answer is not recognised stays behind (drop) or makes it an error (refuse), where on_error is closed.",
}


def schema_text(kind: str) -> str:
    """The schema of a config.yaml or a policy, as JSON."""
    made = _config() if kind == "config" else _policy()
    return json.dumps({"$schema": _DRAFT, **made}, indent=2, ensure_ascii=False) + "\n"


def _config() -> dict[str, Any]:
    (root,), parts = msgspec.json.schema_components([Settings], ref_template="#/$defs/{name}")
    _described(parts, [Settings])
    for part in parts.values():
        part["properties"] = {name: _or_variable(value) for name, value in part.get("properties", {}).items()}
    for name in Settings.not_written:
        del parts[Settings.__name__]["properties"][name]
    return {"title": "Groundwire's config.yaml", **root, "$defs": parts}


def _policy() -> dict[str, Any]:
    own = {stage.name: stage for stage in STAGES}
    kinds: list[Any] = [JudgeOptions, SecondOpinion, StageOptions, *(stage.Options for stage in STAGES)]
    (judge, opinion, shared, *options), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    _described(parts, kinds)
    stages = {
        name: {"description": summary(own[name]), "anyOf": [found, {"type": "null"}]} for name, found in zip(own, options, strict=True)
    }
    by_path = {":": {"type": ["object", "null"], "description": "A stage of one's own: file.py:Class or module:Class."}}
    entry = {"type": "object", "properties": stages, "patternProperties": by_path, "additionalProperties": False}
    named = {"anyOf": [{"enum": list(stages)}, {"type": "string", "pattern": ":"}]}
    properties: dict[str, Any] = {
        "name": {"type": "string", "pattern": r"^[!-+\--:<-?A-~]+$"},
        "delivery": {"enum": list(DELIVERIES), "default": "hold"},
        "enforce": {"type": "boolean", "default": True},
        "load_models": {"enum": list(get_args(LoadModels)), "default": "at_first_use"},
        "unknown": {"enum": list(get_args(Unknown)), "default": "drop"},
        "retrieval_tools": {"type": "array", "items": {"type": "string"}},
        "judge": judge,
        "second_opinion": opinion,
        "stages": {"type": "array", "items": {"anyOf": [named, {**entry, "minProperties": 1, "maxProperties": 1}]}},
    }
    described = {name: {"description": _SAID[name], **value} for name, value in properties.items()}
    parts.pop(shared["$ref"].rpartition("/")[2])
    return {
        "title": "A policy of Groundwire",
        "type": "object",
        "properties": described,
        "required": ["name"],
        "additionalProperties": False,
        "$defs": parts,
    }


def _or_variable(value: dict[str, Any]) -> dict[str, Any]:
    """`value`, or a reference to the environment where a string would be refused."""
    if value.get("type") not in ("integer", "number", "boolean") and "enum" not in value:
        return value
    outside: dict[str, Any] = {name: value[name] for name in ("default", "description") if name in value}
    return {**outside, "anyOf": [{name: inner for name, inner in value.items() if name not in outside}, _VARIABLE]}


def _described(parts: Mapping[str, dict[str, Any]], kinds: list[Any]) -> None:
    """Put into each part what stands below its attributes in the code, where they have no description yet; its own without the code's
    indentation.
    """
    for part in parts.values():
        part["description"] = inspect.cleandoc(part["description"])
    for kind in _structs(kinds, set()):
        properties = parts.get(kind.__name__, {}).get("properties", {})
        for name, said in attribute_docs(kind).items():
            if name in properties:
                properties[name].setdefault("description", said)


def _structs(kinds: Any, seen: set[Any]) -> Iterator[type[Struct]]:
    """Every struct that these annotations lead to."""
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in seen:
            seen.add(kind)
            yield kind
            yield from _structs([field.type for field in msgspec.structs.fields(kind)], seen)
        yield from _structs([arg for arg in get_args(kind) if not isinstance(arg, str)], seen)


def attribute_docs(kind: type[Struct]) -> dict[str, str]:
    """What stands below each attribute in the code of `kind` and of what it is derived from."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not issubclass(base, Struct) or base is Struct or base.__module__.startswith("msgspec"):
            continue
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = made.body if isinstance(made, ast.ClassDef) else []
        for before, after in pairwise(body):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(said, str) and isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                found[before.target.id] = " ".join(said.split())
    return found


if __name__ == "__main__":
    for kind in KINDS:
        (FOLDER / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")
