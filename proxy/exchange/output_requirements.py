"""What a client wants of the answer, in words that hold for every API.

Each dialect reads them from the fields of its own API (`proxy.wire.chat.output_requirements` for chat completions), and nobody else does:
`Request.wants` is what the client asked for, `Exchange.wants` what is sent. No stage looks into the parameters themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field


class OutputRequirements(Struct, frozen=True):
    """The defaults are those of a client that asks for nothing in particular."""

    form: Literal["text", "json", "constrained"] = "text"
    """``json``: one JSON value. ``constrained``: a choice, a pattern or a grammar, which the upstream sees to."""
    schema: Any = None
    """Of `form` ``json``: its JSON Schema, None where any object will do."""
    shown_schema: Mapping[str, Any] | None = None
    """``name``, ``description`` and ``schema``, where the provider shows them to the model: they are part of the prompt."""
    calls: Literal["auto", "none", "required"] = "auto"
    """Whether the model may, must not or must call a tool."""
    chosen_tools: frozenset[str] = frozenset()
    """The only tools that it may call, by name; empty where it may call all that are offered."""
    choices: int = 1
    """How many alternatives."""
    max_output_tokens: int | None = None
    """The client's limit for each."""
    stream_usage: bool = False
    """Whether a stream ends with an event that tells the usage."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    """``temperature``, ``top_p``, ``frequency_penalty``, ``presence_penalty``, ``seed``: those that are given."""

    @property
    def free_text(self) -> bool:
        """Whether the answer may be words as they come: no form was asked for, and no call of a tool."""
        return self.form == "text" and self.calls != "required"
