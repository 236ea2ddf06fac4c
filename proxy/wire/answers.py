"""What answers of all APIs have in common: why one ends, the texts that it tells, its usage, and a changed text over its parts.

Why an answer ends is told in chat's words, whatever its server calls it.
``stop``, ``length``, ``tool_calls`` and ``content_filter`` have many spellings (vLLM, TGI, Gemini, Mistral, Cohere, Bedrock, GLM, DeepSeek,
Ollama); an end that is not known is told as what it is, and never as a good one. ``""``, which Ollama and others send with each chunk,
is no end, nor is the word ``"null"``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import reduce
from itertools import accumulate
from typing import Any

from proxy.exchange import Usage
from proxy.exchange.answers import MOST_TOKENS
from proxy.language.text import SentenceSplitter
from proxy.wire.bodies import is_number, objects_of

_SPELLINGS: Mapping[str, str] = {
    "stop": "end end_turn eos eos_token complete completed finished stop_sequence stop_token finish_reason_stop",
    "length": "max_tokens max_new_tokens max_output_tokens max_length model_length model_context_window_exceeded"
    " context_length_exceeded continuation error_limit token_limit",
    "tool_calls": "tool_call tool_use function_call function_calls",
    "content_filter": "blocklist content_filtered error_toxic filtered guardrail_intervened image_prohibited_content image_recitation"
    " image_safety model_armor prohibited_content recitation refusal safety sensitive spii",
}
_END_OF_SPELLING = {spelling: end for end, spellings in _SPELLINGS.items() for spelling in (end, *spellings.split())}
_NO_ENDS = frozenset(("null", "none", "unspecified"))
GOOD = frozenset(("stop", "tool_calls"))
"""Ends of an answer that is whole."""


def end_of(reason: object) -> str | None:
    """The end that a ``finish_reason`` or ``stop_reason`` tells; None where it tells none. 0.2 µs."""
    if not isinstance(reason, str) or not reason or reason.isspace():
        return None
    if (known := _END_OF_SPELLING.get(reason)) is not None:
        return known
    bare = reason.lower().removeprefix("finish_reason_")
    return None if bare in _NO_ENDS else _END_OF_SPELLING.get(bare, reason)


KEPT_TIMES, FOR_AN_HOUR = "cache_creation_token_details", "ephemeral_1h_input_tokens"
"""LiteLLM's name in chat for how long what was written to a cache is kept, and Anthropic's for an hour."""
_OPENAI = "{0}_tokens_details.cached_tokens {0}_tokens_details.cache_write_tokens {1}_tokens_details.reasoning_tokens"
_USAGE: Mapping[str, tuple[str, ...]] = {
    "chat": ("prompt_tokens", "completion_tokens", *_OPENAI.format("prompt", "completion").split(), ""),
    "responses": ("input_tokens", "output_tokens", *_OPENAI.format("input", "output").split(), ""),
    "messages": (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens_details.thinking_tokens",
        f"cache_creation.{FOR_AN_HOUR}",
    ),
    "gemini": ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "", "thoughtsTokenCount", ""),
}
"""Where each API tells of the prompt, the completion, what of the prompt was read from a cache, or put there, thoughts, and what is kept
there for an hour.
"""
_APART = frozenset(("compaction", "advisor_message"))
"""Of the ``iterations`` of a Messages answer, the types whose tokens are billed and not in its own figures: a summary of what came before,
and what another model was asked."""
_PATHS = {api: [(outer, inner) for outer, _, inner in (path.partition(".") for path in paths)] for api, paths in _USAGE.items()}


def usage_in(api: str, value: object, tier: object = None) -> Usage | None:
    """The usage that an object of the API tells; None for null, for what is none, and where its figures cannot be true. Messages counts a
    cache's apart, Gemini thoughts; it has the `tier` of service in it, others beside it.
    """
    if not isinstance(value, dict):
        return None
    figures, calls = _figures(value, _PATHS[api]), 1
    for one in objects_of(value.get("iterations")) if api == "messages" else ():
        if one.get("type") in _APART:
            figures, calls = [sum(both) for both in zip(figures, _figures(one, _PATHS[api]), strict=True)], calls + 1
    prompt, completion, cached, written, thought, for_an_hour = figures
    if api == "messages":
        dearer = [word for word in (value.get("inference_geo"), value.get("speed")) if word in ("us", "fast")]
        prompt, tier = prompt + cached + written, " ".join(dearer) or value.get("service_tier")
    elif api == "gemini":  # thoughts, and what the provider's own tools put into the prompt, are counted apart
        prompt, completion = prompt + number(value, "toolUsePromptTokenCount"), completion + thought
    elif api == "chat" and not (cached and written):  # DeepSeek's, and Anthropic's own server of this API
        cached, written = cached or number(value, "prompt_cache_hit_tokens"), written or number(value, "cache_creation_input_tokens")
    if api == "chat" and written and isinstance(details := value.get("prompt_tokens_details"), dict):
        for_an_hour = number(details.get(KEPT_TIMES), FOR_AN_HOUR)
    told = prompt, completion, cached, written, thought, for_an_hour
    if min(told) < 0 or max(told) > MOST_TOKENS:
        return None
    return Usage(*told, calls=calls, tier=tier if isinstance(tier, str) else "")


def _figures(value: Mapping[str, Any], paths: Sequence[tuple[str, str]]) -> list[int]:
    """As `number` finds them, also in one of the object's objects, all together: every answer has some."""
    found = [0] * len(paths)
    for i, (outer, inner) in enumerate(paths):
        one = value.get(outer)
        if inner:
            one = one.get(inner) if one.__class__ is dict else None
        if one.__class__ is int:
            found[i] = one
    return found


def number(given: Any, name: str) -> int:
    """A figure in an object; 0 for what is none."""
    found = given.get(name) if isinstance(given, dict) else None
    return found if isinstance(found, int) else 0


class AnswerTexts:
    """The texts of an answer by their places. Each comes in pieces, or whole, or both, and may be told more than once; where it is told as
    something else than before, both are read, since a client may show either.
    """

    def __init__(self) -> None:
        self._pieces: dict[Any, list[str]] = {}
        self._whole: dict[Any, str] = {}

    def __contains__(self, place: object) -> bool:
        return place in self._pieces

    def add(self, place: Any, piece: str) -> None:
        """Some more of a text."""
        self._pieces.setdefault(place, []).append(piece)

    def set_whole(self, place: Any, text: object) -> None:
        """All of it; nothing where that is no text."""
        if isinstance(text, str) and text:
            known = self._whole.get(place) or self.text(place)
            if text != known:
                self.add(place, text.removeprefix(known))
            self._whole[place] = text

    def text(self, place: Any) -> str:
        """What has come of it."""
        return "".join(self._pieces.get(place, ()))

    def has_text(self, place: Any) -> bool:
        """Whether anything has."""
        return any(self._pieces.get(place, ()))

    def texts(self) -> dict[Any, str]:
        """All of them, in the order in which they began."""
        return {place: "".join(pieces) for place, pieces in self._pieces.items()}


WORD_FIELDS = ("text", "content", "refusal", "summary", "transcript")
"""Fields of a part that hold words, though it be one at a time as a stream brings them; others hold names and numbers."""


def has_words(part: Mapping[str, Any]) -> bool:
    """Whether a part of a type that is not read has words that a client would show as the answer's."""
    texts = [(name, value) for name, value in part.items() if isinstance(value, str) and name != "type"]
    return any(bool(value) if name in WORD_FIELDS else " " in value.strip() for name, value in texts)


def add_usage(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """Two usage objects added up, figure by figure; lists one behind the other."""
    total = dict(now)
    for key, value in (before or {}).items():
        other = total.get(key)
        if isinstance(value, dict):
            total[key] = add_usage(value, other if isinstance(other, dict) else {})
        elif is_number(value):
            total[key] = value + other if is_number(other) else value
        elif isinstance(value, list) and isinstance(other, list):
            total[key] = [*value, *other]
        elif other is None:
            total[key] = value
    return total


def added_up(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The usage of several answers, figure by figure; what is no figure is the last one's."""
    return reduce(add_usage, usages, {})


def spread(parts: Sequence[str], text: str) -> list[str]:
    """`text` over as many parts; time is quadratic in the number of sentences at worst."""
    if len(parts) == 1:
        return [text]
    old, new = _sentences("".join(parts)), _sentences(text)
    spreading, at = _Spreading(parts), 0
    for _, begin, end, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        before, after = "".join(old[begin:end]), "".join(new[start:stop])
        spreading.put(at, before, after)
        at += len(before)
    return ["".join(pieces) for pieces in spreading.found]


class _Spreading:
    """Puts pieces of the new text where those of the old one stood."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._ends = list(accumulate(len(part) for part in parts))
        self.found: list[list[str]] = [[] for _ in parts]

    def put(self, at: int, before: str, after: str) -> None:
        """`after` in place of `before`, which stood at character `at`."""
        head = common(before, after)
        tail = common(before[head:][::-1], after[head:][::-1])
        while tail and not before[len(before) - tail].isspace():  # the last letters of two words that only end alike
            tail -= 1
        self._keep(at, before[:head])
        changed_end = len(before) - tail
        if middle := after[head : len(after) - tail]:
            place = at + head if head < changed_end else max(at, at + head - 1)
            self.found[self._part(place)].append(middle)
        self._keep(at + changed_end, before[changed_end:])

    def _keep(self, at: int, text: str) -> None:
        while text:
            part = self._part(at)
            length = max(1, self._ends[part] - at)
            self.found[part].append(text[:length])
            at, text = at + length, text[length:]

    def _part(self, at: int) -> int:
        """Which part character `at` is in; the last one for what stands behind all of them."""
        return min(bisect_right(self._ends, at), len(self._ends) - 1)


def common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _sentences(text: str) -> list[str]:
    splitter = SentenceSplitter()
    return [piece for piece in (*splitter.feed(text), splitter.flush()) if piece]
