"""What a Responses request's parameters ask for.

In: the fields of a body. Out: `OutputRequirements`. A field that makes no sense asks for nothing: the provider refuses it in its own words.
Reference: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from proxy.exchange.output_requirements import OutputRequirements
from proxy.wire.bodies import is_number, object_of

_SAMPLING = ("temperature", "top_p")


def output_requirements_of(params: Mapping[str, Any]) -> OutputRequirements:
    """Read from them."""
    form = object_of(object_of(params.get("text")).get("format"))
    kind = str(form.get("type", "text"))
    limit = params.get("max_output_tokens")
    return OutputRequirements(
        form="text" if kind == "text" else "json" if kind.startswith("json") else "constrained",
        schema=form.get("schema"),
        shown_schema=form if kind == "json_schema" else None,
        calls=_calls(params.get("tool_choice")),
        chosen_tools=frozenset(_chosen(params.get("tool_choice"))),
        max_output_tokens=limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None,
        stream_usage=True,
        sampling={name: params[name] for name in _SAMPLING if is_number(params.get(name))},
    )


def _calls(choice: object) -> Literal["auto", "none", "required"]:
    """An object forces a call, unless it lists the tools that are allowed and says otherwise."""
    if isinstance(choice, Mapping):
        choice = choice.get("mode") if choice.get("type") == "allowed_tools" else "required"
    return "none" if choice == "none" else "required" if choice == "required" else "auto"


def _chosen(choice: object) -> Iterator[str]:
    if isinstance(choice, Mapping):
        listed = choice.get("tools")
        for entry in (choice, *(listed if isinstance(listed, list) else ())):
            if isinstance(entry, Mapping) and entry.get("type") in ("function", "custom") and isinstance(entry.get("name"), str):
                yield entry["name"]
