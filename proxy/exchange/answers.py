"""An answer of the upstream, put together from one body or from a stream, and a sentence of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple, replace


class ToolCall(Struct, frozen=True):
    """A call that the model asked for, put together from its deltas."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it; may be invalid."""
    index: int = 0

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments, parsed: empty when there are none, None when they are not a JSON object."""
        try:
            found = msgspec.json.decode(self.arguments) if self.arguments.strip() else {}
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None
        return found if isinstance(found, dict) else None


class Choice(Struct, frozen=True):
    """One of an answer's ``n`` alternatives."""

    index: int
    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    """What providers send as ``reasoning_content`` or ``reasoning``; not part of the answer."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    inputs: tuple[str, ...] = ()
    """What calls of custom tools, and of the provider's own, take: free text, code, searches. Not part of the answer."""
    reasoning_field: str = ""
    """The field of a chat message that `reasoning` came in."""

    @property
    def thoughts(self) -> dict[str, str]:
        """Fields of a chat message that goes on from this answer: DeepSeek's and Kimi's APIs refuse a turn without its reasoning."""
        return {self.reasoning_field: self.reasoning} if self.reasoning_field else {}


MOST_TOKENS = 10**9
"""More than any exchange takes: of an upstream, which may report anything, a larger figure is none. Sums of them fit into 64 bits."""


class Usage(Struct, frozen=True):
    """Token counts as the upstream reported them, or as they were counted where it did not."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """The part of the prompt that the provider read from its cache."""
    written_tokens: int = 0
    """What it put into its cache."""
    reasoning_tokens: int = 0
    """The part of the completion that is thoughts."""
    written_1h_tokens: int = 0
    """The part of `written_tokens` that the provider keeps for an hour: Anthropic's is dearer."""
    estimated: bool = False
    """Whether this proxy has counted it."""
    calls: int = 1
    """Of the upstream, whose tokens these are together."""
    tier: str = ""
    """Of service, as the upstream tells it; its price may be another."""


def total_usage(several: Sequence[Usage]) -> Usage:
    """All of them together."""
    if len(several) == 1:
        return several[0]
    prompt, completion, cached, written, reasoning, kept, estimates, calls = (
        sum(counts) for counts in zip(*(astuple(one)[:-1] for one in several), strict=True)
    )
    return Usage(prompt, completion, cached, written, reasoning, kept, estimates > 0, calls, several[-1].tier)


class Answer(Struct, frozen=True):
    """An answer put together from one body or from a stream."""

    choices: tuple[Choice, ...]
    model: str = ""
    usage: Usage | None = None
    unread: str = ""
    """Where text stands in it that is not read as part of it: no check has seen that."""
    id: str = ""
    """What the provider knows it by, where a later request may go on from it by that name alone."""
    items: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What it is made of, as the provider put it out, by the ids by which a later request may name it."""
    sources: tuple[tuple[str, str], ...] = ()
    """What the provider's own search gave the model for it, as far as the answer says that: each text, and where it comes from."""

    @property
    def text(self) -> str:
        """The first choice's text."""
        return self.choices[0].text if self.choices else ""

    def with_text(self, index: int, text: str) -> Answer:
        """A copy in which choice `index` says `text`."""
        return replace(self, choices=tuple(replace(c, text=text) if c.index == index else c for c in self.choices))

    def with_refusal(self, index: int, text: str) -> Answer:
        """A copy in which choice `index` refuses with `text`."""
        return replace(self, choices=tuple(replace(c, refusal=text) if c.index == index else c for c in self.choices))

    def with_calls(self, index: int, calls: Sequence[ToolCall]) -> Answer:
        """A copy in which choice `index` makes `calls`: its own, but for their arguments."""
        return replace(self, choices=tuple(replace(c, tool_calls=tuple(calls)) if c.index == index else c for c in self.choices))

    def changed_texts(self, before: Answer) -> dict[int, str]:
        """The texts that differ from those of `before`, by choice."""
        return {new.index: new.text for old, new in zip(before.choices, self.choices, strict=True) if old.text != new.text}

    def changed_refusals(self, before: Answer) -> dict[int, str]:
        """The refusals that differ from those of `before`, by choice."""
        return {new.index: new.refusal for old, new in zip(before.choices, self.choices, strict=True) if old.refusal != new.refusal}

    def changed_arguments(self, before: Answer) -> dict[int, dict[int, str]]:
        """The arguments that differ from those of `before`, by choice and by the call's index."""
        found: dict[int, dict[int, str]] = {}
        for old, new in zip(before.choices, self.choices, strict=True):
            for was, call in zip(old.tool_calls, new.tool_calls, strict=True):
                if was.arguments != call.arguments:
                    found.setdefault(new.index, {})[call.index] = call.arguments
        return found


class Sentence(Struct, frozen=True):
    """One sentence of a streaming answer, as the gate hands it to a stage."""

    text: str
    """With the white space around it."""
    choice: int
    index: int
    """0-based, within its choice."""
    offset: int
    """Characters of the choice's text before it."""
    final: bool
    """Whether the choice ended with it (it may then lack its full stop)."""


# ---- what a client wants of the answer ----
#
# What a client wants of the answer, in words that hold for every API.
#
# Each dialect reads them from the fields of its own API (`proxy.wire.requests` for chat completions), and nobody else does:
# `Request.wants` is what the client asked for, `Exchange.wants` what is sent. No stage looks into the parameters themselves.


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
    limit_field: str = "max_tokens"
    """What the client's API calls that limit."""
    stream_usage: bool = False
    """Whether a stream ends with an event that tells the usage."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    """``temperature``, ``top_p``, ``frequency_penalty``, ``presence_penalty``, ``seed``: those that are given."""

    @property
    def free_text(self) -> bool:
        """Whether the answer may be words as they come: no form was asked for, and no call of a tool."""
        return self.form == "text" and self.calls != "required"
