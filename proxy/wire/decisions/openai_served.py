"""OpenAI's shape as its server: ``POST /v1/decisions``. What is not text (an image in the input or a question) is a 400."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

from proxy.errors import ProxyError
from proxy.ports.decisions import YES_NO, Answer, Decision, Question
from proxy.wire.bodies import load
from proxy.wire.decisions.fields import BadField, Place, content, described, list_at, object_at, text, unrepeated
from proxy.wire.decisions.shape import MAX_LEVELS, MAX_OPTIONS, MAX_QUESTIONS

_TEXT_PARTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
_ITEMS = {
    "message": "content",
    "function_call": "arguments",
    "function_call_output": "output",
    "custom_tool_call": "input",
    "custom_tool_call_output": "output",
}
"""Types of input items, and the field that their words stand in."""
_ROLES = ("user", "assistant", "system", "developer")


class OpenAICall(Struct, frozen=True):
    """Implements `proxy.wire.decisions.shape.ServedCall`."""

    model: str
    state: str
    questions: tuple[Question, ...]
    """Named by their places, as names may be missing, or the same."""
    names: tuple[str | None, ...]
    values: Mapping[str, tuple[str | bool, ...]]
    """By question: its options as the client wrote them; true and "true" are two."""

    def render(self, decision: Decision, model: str) -> bytes:
        """Implements `ServedCall`."""
        answers = [
            _rendered(question, decision.answers.get(question.name, Answer()), name, self.values.get(question.name, ()))
            for question, name in zip(self.questions, self.names, strict=True)
        ]
        usage = {
            "input_tokens": decision.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": decision.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": decision.input_tokens + decision.output_tokens,
        }
        return orjson.dumps({"model": model, "answers": answers, "usage": usage})


class OpenAIServed:
    """Implements `proxy.wire.decisions.shape.Served`."""

    def parse(self, body: bytes) -> OpenAICall:
        """Implements `Served`."""
        fields = load(body)
        model, state = text(fields.get("model"), ("model",)), _input(fields.get("input"))
        asked = list_at(fields.get("questions"), ("questions",), 1, MAX_QUESTIONS)
        read = [_question(one, i) for i, one in enumerate(asked)]
        values = {question.name: values for question, _, values in read}
        return OpenAICall(model, state, tuple(question for question, _, _ in read), tuple(name for _, name, _ in read), values)

    def error(self, error: ProxyError) -> tuple[int, bytes]:
        """Implements `Served`."""
        return error.status, orjson.dumps(error.envelope())


def _input(value: Any) -> str:
    if not isinstance(value, list):
        return text(value, ("input",))
    return "\n\n".join(_item(one, ("input", i)) for i, one in enumerate(list_at(value, ("input",), 1, 10_000)))


def _item(value: Any, place: Place) -> str:
    item = object_at(value, place)
    kind = item.get("type", "message")
    if kind not in _ITEMS:
        raise BadField((*place, "type"), f"expected one of: {', '.join(_ITEMS)}")
    if kind == "message" and item.get("role") not in _ROLES:
        raise BadField((*place, "role"), f"expected one of: {', '.join(_ROLES)}")
    name = _ITEMS[kind]
    return _parts(item.get(name), (*place, name))


def _parts(value: Any, place: Place) -> str:
    if not isinstance(value, list):
        return text(value, place, empty=True)
    return "\n".join(_part(one, (*place, i)) for i, one in enumerate(value))


def _part(value: Any, place: Place) -> str:
    part = object_at(value, place)
    kind = part.get("type")
    if kind == "input_json":
        return content(part.get("data"), (*place, "data"))
    if kind == "input_image":
        raise BadField(place, "images are not read here: send text")
    if kind not in _TEXT_PARTS:
        raise BadField((*place, "type"), f"expected one of: {', '.join(_TEXT_PARTS)}, input_json")
    name = _TEXT_PARTS[kind]
    return text(part.get(name), (*place, name), empty=True)


def _question(value: Any, i: int) -> tuple[Question, str | None, tuple[str | bool, ...]]:
    """The question, its name as the client wrote it, and its options likewise."""
    place: Place = ("questions", i)
    fields = object_at(value, place)
    kind, name = fields.get("type"), fields.get("name")
    if kind not in ("predicate", "choice", "score"):
        raise BadField((*place, "type"), "expected one of: predicate, choice, score")
    if name is not None and not isinstance(name, str):
        raise BadField((*place, "name"), "expected a text")
    asked = _parts(fields.get("instructions"), (*place, "instructions"))
    text(asked, (*place, "instructions"))
    if kind == "predicate":
        return Question(name=str(i), kind="predicate", instructions=asked), name, ()
    values, meanings = _options(kind, fields, place)
    options = tuple(value if isinstance(value, str) else orjson.dumps(value).decode() for value in values)
    where = (*place, "choices" if kind == "choice" else "levels")
    if len(set(options)) < len(values) == len(set(values)):  # true and "true": told apart by the client alone
        options = tuple(option if isinstance(value, str) else f"({option})" for option, value in zip(options, values, strict=True))
    made = Question(
        name=str(i), kind=kind, instructions=asked, choices=unrepeated(options, where), descriptions=meanings if any(meanings) else ()
    )
    return made, name, values


def _options(kind: Literal["choice", "score"], fields: Mapping[str, Any], place: Place) -> tuple[tuple[str | bool, ...], tuple[str, ...]]:
    """A question's options, or its levels, and what each of them means."""
    list_name, key, most = ("choices", "value", MAX_OPTIONS) if kind == "choice" else ("levels", "label", MAX_LEVELS)
    values: list[str | bool] = []
    meanings: list[str] = []
    for i, one in enumerate(list_at(fields.get(list_name), (*place, list_name), 2, most)):
        at = (*place, list_name, i)
        entry = object_at(one, at)
        value = entry.get(key)
        values.append(value if kind == "choice" and isinstance(value, bool) else text(value, (*at, key)))
        meanings.append(described(entry.get("description"), (*at, "description")))
    return tuple(values), tuple(meanings)


def _rendered(question: Question, found: Answer, name: str | None, values: Sequence[str | bool]) -> dict[str, Any]:
    chances = [found.probabilities.get(option, 0.0) for option in question.options]
    if not found.probabilities:
        return {"type": "refusal", "name": name}
    if question.kind == "predicate":
        return {"type": "predicate", "name": name, "probability": found.probabilities[YES_NO[0]]}
    made: dict[str, Any] = {"type": question.kind, "name": name, "confidence": max(chances)}
    if question.kind == "choice":
        made["choice"] = values[chances.index(max(chances))]
        made["probabilities"] = [{"value": value, "probability": chance} for value, chance in zip(values, chances, strict=True)]
    else:
        made["score"] = sum(i * chance for i, chance in enumerate(chances))
        levels = enumerate(zip(values, chances, strict=True))
        made["probabilities"] = [{"value": i, "label": label, "probability": chance} for i, (label, chance) in levels]
    return made
