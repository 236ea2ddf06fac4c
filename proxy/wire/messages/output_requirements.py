"""What a Messages request's parameters ask for. In: the fields of a body. Out: `OutputRequirements`. What makes no sense asks for nothing.

Reference: https://docs.anthropic.com/en/api/messages and, for ``output_config.format`` (before: ``output_format``), its guide "Structured
outputs". An answer that goes on with a begun one (prefill) is no free text: nothing can be added to what the client has begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from proxy.exchange.output_requirements import OutputRequirements
from proxy.wire.bodies import is_number, object_of

_SAMPLING = ("temperature", "top_p")
_CALLS: Mapping[str, Literal["auto", "none", "required"]] = {"any": "required", "tool": "required", "none": "none"}


def output_requirements_of(params: Mapping[str, Any], *, prefilled: bool = False) -> OutputRequirements:
    """Read from them; `prefilled` is whether the conversation ends with the answer's beginning."""
    form = object_of(object_of(params.get("output_config")).get("format")) or object_of(params.get("output_format"))
    choice = object_of(params.get("tool_choice"))
    json = str(form.get("type")).startswith("json")
    name, limit = choice.get("name"), params.get("max_tokens")
    return OutputRequirements(
        form="json" if json else "constrained" if form or prefilled else "text",
        schema=form.get("schema") if json else None,
        calls=_CALLS.get(str(choice.get("type")), "auto"),
        chosen_tools=frozenset((name,)) if isinstance(name, str) and choice.get("type") == "tool" else frozenset(),
        max_output_tokens=limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None,
        stream_usage=True,
        sampling={key: params[key] for key in _SAMPLING if is_number(params.get(key))},
    )
