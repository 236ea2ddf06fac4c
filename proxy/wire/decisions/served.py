"""Decisions as their server: ``POST /v1/decisions`` in OpenAI's shape, ``POST /v1/systemone`` in System One's.

Each field has its place, so that what is wrong is told with the path to it. What is not text (an image in the input or a question) is a
400; a question that is refused has no answer in System One's shape, as at other servers of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import orjson
from msgspec import Struct

from proxy.errors import InvalidRequest, ProxyError
from proxy.ports.decisions import YES_NO, Answer, Decision, Question
from proxy.wire.bodies import kind_of, load

MAX_QUESTIONS, MAX_OPTIONS, MAX_LEVELS = 400, 255, 10
"""Of one request, as OpenAI documents them; what is served here has the same bounds in both shapes."""


class ServedCall(Struct, frozen=True):
    """A client's request."""

    model: str
    """As the client named it."""
    state: str
    """What the questions are about; JSON where the client sent that."""
    questions: tuple[Question, ...]
    """Under names that differ."""

    def render(self, decision: Decision, model: str) -> bytes:
        """The answer's body; a question without probabilities is refused. ``confidence`` is the greatest probability."""
        raise NotImplementedError


class DecisionServer(Protocol):
    """As its server."""

    def parse(self, body: bytes) -> ServedCall:
        """Raises `InvalidRequest`, with the path of the bad field in ``param``."""

    def error(self, error: ProxyError) -> tuple[int, bytes]:
        """Status and body that tell of an error."""


Place = tuple[str | int, ...]
"""From the body's top: ``("questions", 0, "choices")``."""


class BadField(InvalidRequest):
    """A field is wrong; ``param`` is its path: ``questions[0].choices``."""

    def __init__(self, place: Place, problem: str) -> None:
        path = path_of(place)
        super().__init__(f"{path}: {problem}", param=path)
        self.place, self.problem = place, problem


def path_of(place: Place) -> str:
    """A place as OpenAI writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def text(value: Any, place: Place, *, empty: bool = False) -> str:
    """A string. Raises `BadField`."""
    if not isinstance(value, str) or not (value.strip() or empty):
        raise BadField(place, f"expected a text, got {kind_of(value) if not isinstance(value, str) else 'an empty one'}")
    return value


def list_at(value: Any, place: Place, least: int, most: int) -> Sequence[Any]:
    """A list with so many items. Raises `BadField`."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        got = f"{len(value)}" if isinstance(value, list) else kind_of(value)
        raise BadField(place, f"expected a list of {least} to {most}, got {got}")
    return value


def object_at(value: Any, place: Place, least: int = 0, most: int = 10_000) -> dict[str, Any]:
    """An object with so many fields. Raises `BadField`."""
    if not isinstance(value, dict) or not least <= len(value) <= most:
        got = f"{len(value)} fields" if isinstance(value, dict) else kind_of(value)
        raise BadField(place, f"expected an object of {least} to {most} fields, got {got}")
    return value


def content(value: Any, place: Place) -> str:
    """A text, or JSON as text. Raises `BadField`."""
    if isinstance(value, dict | list):
        return orjson.dumps(value).decode()
    return text(value, place)


def read_description(value: Any, place: Place) -> str:
    """A description, "" for none. Raises `BadField`."""
    return "" if value is None or value == "" else content(value, place)


def check_unique(names: Sequence[str], place: Place) -> tuple[str, ...]:
    """`names`, if they differ. Raises `BadField`."""
    if len(set(names)) < len(names):
        raise BadField(place, "each must stand there once")
    return tuple(names)


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


class OpenAICall(ServedCall, frozen=True):
    """Its questions are named by their places, as names may be missing, or the same."""

    names: tuple[str | None, ...]
    values: Mapping[str, tuple[str | bool, ...]]
    """By question: its options as the client wrote them; true and "true" are two."""

    def render(self, decision: Decision, model: str) -> bytes:
        """Implements `ServedCall`."""
        answers = [
            _openai_answer(question, decision.answers.get(question.name, Answer()), name, self.values.get(question.name, ()))
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
    """Implements `DecisionServer`."""

    def parse(self, body: bytes) -> OpenAICall:
        """Implements `DecisionServer`."""
        fields = load(body)
        model, state = text(fields.get("model"), ("model",)), _input(fields.get("input"))
        asked = list_at(fields.get("questions"), ("questions",), 1, MAX_QUESTIONS)
        read = [_openai_question(one, i) for i, one in enumerate(asked)]
        values = {question.name: values for question, _, values in read}
        return OpenAICall(model, state, tuple(question for question, _, _ in read), tuple(name for _, name, _ in read), values)

    def error(self, error: ProxyError) -> tuple[int, bytes]:
        """Implements `DecisionServer`."""
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


def _openai_question(value: Any, i: int) -> tuple[Question, str | None, tuple[str | bool, ...]]:
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
        name=str(i), kind=kind, instructions=asked, choices=check_unique(options, where), descriptions=meanings if any(meanings) else ()
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
        meanings.append(read_description(entry.get("description"), (*at, "description")))
    return tuple(values), tuple(meanings)


def _openai_answer(question: Question, found: Answer, name: str | None, values: Sequence[str | bool]) -> dict[str, Any]:
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


_UNPROCESSABLE = 422
"""With which FastAPI, and so TypeSafe's API, says that a field is wrong."""


class SystemOneCall(ServedCall, frozen=True):
    """Its questions have their own names."""

    def render(self, decision: Decision, model: str) -> bytes:
        """Implements `ServedCall`."""
        found = {question.name: decision.answers.get(question.name, Answer()) for question in self.questions}
        answers = {one.name: _systemone_answer(one, found[one.name]) for one in self.questions if found[one.name].probabilities}
        refusals = {name: answer.problem for name, answer in found.items() if not answer.probabilities}
        usage = {"input_tokens": decision.input_tokens, "output_tokens": decision.output_tokens}
        return orjson.dumps({"model": model, "answers": answers, **({"refusals": refusals} if refusals else {}), "usage": usage})


class SystemOneServed:
    """Implements `DecisionServer`."""

    def parse(self, body: bytes) -> SystemOneCall:
        """Implements `DecisionServer`."""
        fields = load(body)
        model, state = text(fields.get("model"), ("model",)), content(fields.get("state"), ("state",))
        for name in ("images", "assets", "audio", "videos"):
            if fields.get(name):
                raise BadField((name,), "only text is read here")
        asked = object_at(fields.get("questions"), ("questions",), 1, MAX_QUESTIONS)
        return SystemOneCall(model, state, tuple(_systemone_question(name, one) for name, one in asked.items()))

    def error(self, error: ProxyError) -> tuple[int, bytes]:
        """Implements `DecisionServer`. Beside FastAPI's ``detail`` the error stands as OpenAI has it, for clients that read that."""
        envelope = error.envelope()
        if not isinstance(error, BadField):
            return error.status, orjson.dumps({**envelope, "detail": error.message})
        detail = [{"loc": ["body", *error.place], "msg": error.problem, "type": "value_error"}]
        return _UNPROCESSABLE, orjson.dumps({**envelope, "detail": detail})


def _systemone_question(name: str, value: Any) -> Question:
    place: Place = ("questions", name)
    fields = object_at(value, place)
    kind = fields.get("type")
    if kind not in ("noul", "choice", "score"):
        raise BadField((*place, "type"), "expected one of: noul, choice, score")
    asked = read_description(fields.get("instructions"), (*place, "instructions"))
    criteria, at = fields.get("criteria"), (*place, "criteria")
    if kind == "noul":
        return _noul(name, asked, criteria, place)
    if kind == "choice":
        options = object_at(criteria, at, 1, MAX_OPTIONS)
        meanings = tuple(read_description(meaning, (*at, option)) for option, meaning in options.items())
        return Question(name=name, instructions=asked, choices=tuple(options), descriptions=meanings if any(meanings) else ())
    levels = [content(level, (*at, i)) for i, level in enumerate(list_at(criteria, at, 1, MAX_LEVELS))]
    return Question(name=name, kind="score", instructions=asked, choices=check_unique(levels, at))


def _noul(name: str, asked: str, criteria: Any, place: Place) -> Question:
    meant: Mapping[str, Any] = {} if criteria is None else object_at(criteria, (*place, "criteria"))
    meanings = tuple(read_description(meant.get(key), (*place, "criteria", key)) for key in ("true", "false"))
    if not asked and not any(meanings):
        raise BadField((*place, "instructions"), "is needed, or criteria")
    return Question(name=name, kind="predicate", instructions=asked, descriptions=meanings if any(meanings) else ())


def _systemone_answer(question: Question, found: Answer) -> dict[str, Any]:
    chances = found.probabilities
    if question.kind == "predicate":
        return {"type": "noul", "noul": chances[YES_NO[0]]}
    likeliest = max(question.choices, key=lambda option: chances[option])
    if question.kind == "choice":
        return {"type": "choice", "choice": likeliest, "confidence": chances[likeliest], "probabilities": dict(chances)}
    return {
        "type": "score",
        "score": sum(i * chances[level] for i, level in enumerate(question.choices)),
        "confidence": chances[likeliest],
        "legend": {str(i): level for i, level in enumerate(question.choices)},
        "probabilities": {str(i): chances[level] for i, level in enumerate(question.choices)},
    }
