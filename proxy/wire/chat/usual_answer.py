"""A chat completion's answer as most are: read into its fields at once, for a seventh of what looking at each of them takes.

In: bytes. Out: the `Answer` that `proxy.wire.chat.completions` would read, or None for one with anything unusual in it (calls of tools, log
probabilities, text in a strange place, a field of another type, no JSON), which has to be looked at. What is passed over is as valid as for
`orjson`, but for a number that no double can hold.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Struct

from proxy.exchange import Answer, Choice, Usage
from proxy.wire.answers import end_of

_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float
"""Only whole ones, written so, count."""


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None
    function_call: None = None
    audio: None = None


class _Choice(Struct):
    message: _Message
    index: _Number | None = None
    finish_reason: str | None = None
    logprobs: None = None
    text: None = None
    delta: None = None


class _Details(Struct):
    cached_tokens: _Number | None = None


class _Usage(Struct):
    prompt_tokens: _Number | None = None
    completion_tokens: _Number | None = None
    prompt_tokens_details: _Details | None = None


class _Body(Struct):
    choices: list[_Choice]
    model: str = ""
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Body).decode


def usual_answer(body: bytes) -> Answer | None:
    """The answer, if it is as most are."""
    try:
        if not body.isascii():
            body.decode()  # what is passed over is not looked at
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    choices = []
    for i, one in enumerate(found.choices):
        said, index = one.message, one.index
        if said.tool_calls:
            return None
        number = i if index is None or index.__class__ is float else int(index)
        reasoning = said.reasoning_content or said.reasoning or ""
        choices.append(Choice(number, said.content or "", said.refusal or "", reasoning, (), end_of(one.finish_reason)))
    return Answer(tuple(choices), found.model, None if found.usage is None else _usage(found.usage))


def _usage(found: _Usage) -> Usage:
    details = found.prompt_tokens_details
    cached = details.cached_tokens if details is not None else 0
    return Usage(*[number if number.__class__ is int else 0 for number in (found.prompt_tokens, found.completion_tokens, cached)])
