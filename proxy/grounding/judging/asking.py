"""Asking an LLM for a judgement as JSON: what `proxy.stages.relevance.judge` and `proxy.grounding.judging.llm` have in common.

Foreign text goes into the question as strings of one JSON object, which it cannot end. An answer is read leniently; what cannot be read
is a failed check for the caller, never a guess.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from proxy.errors import UpstreamRefused
from proxy.exchange import Message
from proxy.ports import ChatModel

FORMAT_REFUSED = frozenset((400, 404, 415, 422, 501))
"""Statuses with which servers refuse a ``response_format`` or ``temperature`` that they do not know."""
_CONFIDENCES = {"high": 0.9, "medium": 0.7, "low": 0.55}


class LLMOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``llm:`` of a stage that asks a model."""

    upstream: Annotated[str, Meta(min_length=1, description="an upstream of config.yaml with a key of its own")]
    model: Annotated[str, Meta(min_length=1, description="model name, as that upstream knows it")]
    timeout_s: Annotated[float, Meta(gt=0, description="longest wait for its judgement, retries included")] = 4.0
    params: Annotated[Mapping[str, Any], Meta(description="further fields of the call, as max_tokens")] = {}


class StructuredChat:
    """A model that is asked for JSON of one schema, until its upstream turns out to refuse schemas."""

    def __init__(self, chat: ChatModel, options: LLMOptions, schema: Mapping[str, Any]) -> None:
        """`schema` is a ``response_format``."""
        self._chat, self._options, self._schema = chat, options, schema
        self._structured = True

    async def ask(self, messages: Sequence[Message], timeout_s: float | None = None) -> str:
        """The answer's text, at temperature 0; `timeout_s` for a shorter wait than the options'. Raises `ProxyError`."""
        if self._structured:
            try:
                return await self._complete(messages, {"temperature": 0, "response_format": self._schema}, timeout_s)
            except UpstreamRefused as error:
                if error.upstream_status not in FORMAT_REFUSED:
                    raise
            answer = await self._complete(messages, {}, timeout_s)
            self._structured = False
            return answer
        return await self._complete(messages, {}, timeout_s)

    async def _complete(self, messages: Sequence[Message], extra: Mapping[str, Any], timeout_s: float | None) -> str:
        o = self._options
        limit = o.timeout_s if timeout_s is None else timeout_s
        return await self._chat.complete(o.upstream, o.model, messages, params={**extra, **o.params}, timeout_s=limit)


def last_json(text: str, wanted: Callable[[Any], bool], opening: str = "{") -> Any:
    """The last JSON value in `text` that is `wanted`, None without one: what a model thinks aloud comes before its answer.

    `opening` are the characters that a value may begin with. What stands inside a value that was read is not looked at again.
    """
    decoder, found = json.JSONDecoder(), None
    starts = re.compile(f"[{re.escape(opening)}]")
    match = starts.search(text)
    while match is not None:
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            end = match.start() + 1
        else:
            found = value if wanted(value) else found
        match = starts.search(text, end)
    return found


def confidence(value: Any) -> float:
    """From 0.5 to 1, since less confidence in an answer would be the other answer; 0.75 where the model gave none that can be read."""
    if isinstance(value, str):
        word = value.strip().lower()
        match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*(%?)", word)
        value = _CONFIDENCES.get(word) if match is None else float(match[1]) / (100 if match[2] else 1)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return 0.75
    share = value / 100 if value > 1 else float(value)
    return max(0.5, share)


def key_of(*parts: str) -> bytes:
    """A name for `parts` in a cache; where one ends and the next begins is part of it."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.digest()
