"""Decisions as their client: what is asked of a server in each shape, and what is read of its answer.

OpenAI's shape has ``input`` and a list of ``questions`` in, a list of ``answers`` out, in the same order and under the same names; System
One's a ``state`` and named ``questions`` in, ``answers`` under the same names out; and Google's differs from that in names. What a server
says of one question becomes an `Answer`: probabilities that can be used, or why there are none. Nothing is guessed.

References: https://platform.openai.com/docs/api-reference/decisions, and openai-python's ``types/decision.py``;
https://docs.typesafe.ai/api and the models of ``typesafe-sdk``, which are made from its OpenAPI;
https://ai.google.dev/gemini-api/docs/decisions and google-genai's ``types/decisions``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson
from msgspec import Struct

from proxy.errors import ProxyError
from proxy.exchange import Usage
from proxy.exchange.answers import MOST_TOKENS
from proxy.ports.decisions import YES_NO, Answer, Question
from proxy.wire.bodies import object_of
from proxy.wire.http.encodings import decode_body

_ROUNDING = 0.005
"""Of one probability with two decimals, as OpenRouter passes them on; what is not rounded is far nearer."""
_LEAST, _MOST = 0.02, 0.05
"""How far a sum may lie from one, whatever the number of options."""
MOST_USD = 10**6
"""More than any answer costs: a larger price is none."""
MOST_DECODED_BYTES = 2**24
"""Of an answer that is passed on as it came, compressed: one of these models is far shorter."""
_MAX_QUOTED_CHARS = 80
"""Characters of a server's value that a problem quotes."""

REFUSED, MISSING = Answer(problem="refused"), Answer(problem="missing")


def answer(question: Question, found: Mapping[str, Any]) -> Answer:
    """Of a choice or a score, from what the server has for each option; the probabilities are brought to a sum of exactly one."""
    options = question.options
    if unknown := [name for name in found if name not in options]:
        return Answer(problem=f"wrong names: {_quote(unknown[0])}")
    if absent := [name for name in options if name not in found]:
        return Answer(problem=f"wrong names: nothing for {_quote(absent[0])}")
    for name in options:
        if not _is_probability(found[name]):
            return Answer(problem=f"not a number: {_quote(found[name])} for {_quote(name)}")
    total = math.fsum(found.values())
    if abs(total - 1) > min(_MOST, max(_LEAST, _ROUNDING * len(options))):
        return Answer(problem=f"does not sum to one: {total:.4g}")
    return Answer({name: found[name] / total for name in options})


def predicate(probability: Any) -> Answer:
    """Of a predicate, from the probability that it holds."""
    if not _is_probability(probability):
        return Answer(problem=f"not a number: {_quote(probability)}")
    yes, no = YES_NO
    return Answer({yes: float(probability), no: 1.0 - probability})


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1  # NaN lies nowhere


def _quote(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else text[: _MAX_QUOTED_CHARS - 1] + "…"


class DecisionClient(Protocol):
    """As a client of it."""

    def render_request(self, model: str, state: str, questions: Sequence[Question]) -> bytes:
        """The body of a call."""

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """One answer for each of the `questions`, by name. Raises `ValueError` where `fields` are no answer of this shape."""


class Billing(Struct, frozen=True):
    """What an answer says that it took."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, read from the provider's cache."""
    usd: float | None = None
    """Where the provider names its price, as OpenRouter does."""
    model: str = ""
    """The one that answered."""

    @property
    def usage(self) -> Usage | None:
        """None where it says nothing of tokens."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens) if self.input_tokens or self.output_tokens else None


def fields_of(body: bytes) -> Mapping[str, Any]:
    """An answer's fields, out of an envelope (``result``: Cloudflare's) where they stand in one. Raises `ValueError`: there are none."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = json.loads(body)  # reads NaN: one number that is none spoils one answer, not all
    if not isinstance(found, dict):
        raise ValueError("not an object")
    inner = found.get("result")
    if "answers" not in found and isinstance(inner, dict):
        return inner
    return found


def read_billing(body: bytes, encoding: str = "") -> Billing:
    """What the answer in these bytes says, as they came; nothing where they are none, or of an encoding that is not read, or stand for more
    than `MOST_DECODED_BYTES`.
    """
    try:
        return billing_of(fields_of(decode_body(body, encoding, MOST_DECODED_BYTES)))
    except (ValueError, RecursionError, ProxyError):
        return Billing()


def billing_of(fields: Mapping[str, Any]) -> Billing:
    """OpenAI's and System One's names, or Google's, or of all tokens together; nothing for what is not there."""
    usage, model = object_of(fields.get("usage")), fields.get("model")
    cached = object_of(usage.get("input_tokens_details") or usage.get("prompt_tokens_details")).get("cached_tokens")
    cost = usage.get("cost")
    return Billing(
        _tokens(usage, "input_tokens", "total_input_tokens", "prompt_tokens", "total_tokens"),
        _tokens(usage, "output_tokens", "total_output_tokens", "completion_tokens"),
        _tokens({"cached": cached}, "cached") or _tokens(usage, "cached_input_tokens", "total_cached_tokens"),
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MOST_USD else None,
        model if isinstance(model, str) else "",
    )


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    found = (usage.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS), 0)


class OpenAIShape:
    """Implements `DecisionClient`."""

    def render_request(self, model: str, state: str, questions: Sequence[Question]) -> bytes:
        """Implements `DecisionClient`."""
        return orjson.dumps({"model": model, "input": state, "questions": [_openai_question(question) for question in questions]})

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """Implements `DecisionClient`. An answer belongs to the question with its name; by its place only where none has a name."""
        found = fields.get("answers")
        if not isinstance(found, list):
            raise ValueError("no list of answers")
        entries = [entry if isinstance(entry, dict) else {} for entry in found]
        if len(entries) == len(questions) and not any(entry.get("name") for entry in entries):
            return {question.name: _openai_answer(question, entry) for question, entry in zip(questions, entries, strict=True)}
        named: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            named.setdefault(str(entry.get("name")), []).append(entry)
        return {question.name: _of_name(question, named.get(question.name, [])) for question in questions}


def _of_name(question: Question, entries: Sequence[Mapping[str, Any]]) -> Answer:
    if len(entries) > 1:
        return Answer(problem=f"wrong names: {len(entries)} answers to one question")
    return _openai_answer(question, entries[0]) if entries else MISSING


def _openai_answer(question: Question, entry: Mapping[str, Any]) -> Answer:
    kind, listed = entry.get("type"), entry.get("probabilities")
    if kind == "refusal":
        return REFUSED
    if kind != question.kind:
        return MISSING
    if kind == "predicate":
        return predicate(entry["probability"]) if "probability" in entry else MISSING
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        return MISSING
    pairs = [(_option(question, one), one.get("probability")) for one in listed]
    if len(dict(pairs)) != len(pairs):
        return Answer(problem="wrong names: an option stands there twice")
    return answer(question, dict(pairs))


def _option(question: Question, one: Mapping[str, Any]) -> str:
    """The option that it is of; of a level the number counts, as labels may come back shortened."""
    value = one.get("value")
    if question.kind != "score":
        return value if isinstance(value, str) else repr(value)  # true is not "true"
    within = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(question.choices)
    return question.choices[value] if within else f"level {value!r}"  # type: ignore[index]


def _openai_question(question: Question) -> dict[str, Any]:
    made: dict[str, Any] = {"type": question.kind, "name": question.name, "instructions": question.instructions}
    if question.kind == "predicate":
        rules = (f"Answer {option} when: {text}" for option, text in _described_options(question) if text)
        made["instructions"] = "\n\n".join((question.instructions, *rules))
        return made
    list_name, key = ("choices", "value") if question.kind == "choice" else ("levels", "label")
    made[list_name] = [{key: option, **({"description": text} if text else {})} for option, text in _described_options(question)]
    return made


def _described_options(question: Question) -> list[tuple[str, str]]:
    return list(zip(question.options, question.descriptions or ("",) * len(question.options), strict=True))


KINDS = {"predicate": "noul", "choice": "choice", "score": "score"}
"""Ours, and System One's word for it."""


class SystemOneShape:
    """Implements `DecisionClient`."""

    state = "state"
    criteria = ("true", "false")
    """Of a yes and of a no."""

    def render_request(self, model: str, state: str, questions: Sequence[Question]) -> bytes:
        """Implements `DecisionClient`."""
        return orjson.dumps({"model": model, self.state: state, "questions": {one.name: self._render_question(one) for one in questions}})

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """Implements `DecisionClient`."""
        found = fields.get("answers")
        if not isinstance(found, dict):
            raise ValueError("no answers")
        return {question.name: _systemone_answer(question, found.get(question.name)) for question in questions}

    def _render_question(self, question: Question) -> dict[str, Any]:
        made: dict[str, Any] = {"type": KINDS[question.kind], "instructions": question.instructions}
        texts = question.descriptions or ("",) * len(question.options)
        if question.kind == "score":
            made["criteria"] = [f"{level}: {text}" if text else level for level, text in zip(question.choices, texts, strict=True)]
        elif question.kind == "choice":
            made["criteria"] = {option: self._meaning(option, text) for option, text in zip(question.choices, texts, strict=True)}
        elif any(texts):
            made["criteria"] = {name: text for name, text in zip(self.criteria, texts, strict=True) if text}
        return made

    def _meaning(self, option: str, text: str) -> str | None:
        return text or None


class GeminiShape(SystemOneShape):
    """Google's: an ``input``, descriptions that must be there, and input that was blocked as a whole."""

    state = "input"
    criteria = ("true_description", "false_description")

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """Implements `DecisionClient`."""
        if object_of(fields.get("prompt_feedback")).get("block_reason"):
            return {question.name: REFUSED for question in questions}
        return super().parse_answers(fields, questions)

    def _meaning(self, option: str, text: str) -> str | None:
        return text or option


def _systemone_answer(question: Question, entry: object) -> Answer:
    if not isinstance(entry, dict):
        return MISSING
    if entry.get("type") == "refusal":
        return REFUSED
    if question.kind == "predicate":
        return predicate(entry["noul"]) if "noul" in entry else MISSING
    found = entry.get("probabilities")
    if not isinstance(found, dict) or entry.get("type", question.kind) != question.kind:
        return MISSING
    if question.kind == "score":
        levels = {str(i): level for i, level in enumerate(question.choices)}
        found = {levels.get(name, f"level {name}"): value for name, value in found.items()}
    return answer(question, found)
