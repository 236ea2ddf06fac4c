"""System One's shape as its server: ``POST /v1/systemone``. A question that is refused has no answer, as at other servers of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from proxy.errors import ProxyError
from proxy.ports.decisions import YES_NO, Answer, Decision, Question
from proxy.wire.bodies import load
from proxy.wire.decisions.fields import BadField, Place, content, described, list_at, object_at, text, unrepeated
from proxy.wire.decisions.shape import MAX_LEVELS, MAX_OPTIONS, MAX_QUESTIONS

_UNPROCESSABLE = 422
"""With which FastAPI, and so TypeSafe's API, says that a field is wrong."""


class SystemOneCall(Struct, frozen=True):
    """Implements `proxy.wire.decisions.shape.ServedCall`."""

    model: str
    state: str
    questions: tuple[Question, ...]

    def render(self, decision: Decision, model: str) -> bytes:
        """Implements `ServedCall`."""
        found = {question.name: decision.answers.get(question.name, Answer()) for question in self.questions}
        answers = {one.name: _rendered(one, found[one.name]) for one in self.questions if found[one.name].probabilities}
        refusals = {name: answer.problem for name, answer in found.items() if not answer.probabilities}
        usage = {"input_tokens": decision.input_tokens, "output_tokens": decision.output_tokens}
        return orjson.dumps({"model": model, "answers": answers, **({"refusals": refusals} if refusals else {}), "usage": usage})


class SystemOneServed:
    """Implements `proxy.wire.decisions.shape.Served`."""

    def parse(self, body: bytes) -> SystemOneCall:
        """Implements `Served`."""
        fields = load(body)
        model, state = text(fields.get("model"), ("model",)), content(fields.get("state"), ("state",))
        for name in ("images", "assets", "audio", "videos"):
            if fields.get(name):
                raise BadField((name,), "only text is read here")
        asked = object_at(fields.get("questions"), ("questions",), 1, MAX_QUESTIONS)
        return SystemOneCall(model, state, tuple(_question(name, one) for name, one in asked.items()))

    def error(self, error: ProxyError) -> tuple[int, bytes]:
        """Implements `Served`. Beside FastAPI's ``detail`` the error stands as OpenAI has it, for clients that read that."""
        envelope = error.envelope()
        if not isinstance(error, BadField):
            return error.status, orjson.dumps({**envelope, "detail": error.message})
        detail = [{"loc": ["body", *error.place], "msg": error.problem, "type": "value_error"}]
        return _UNPROCESSABLE, orjson.dumps({**envelope, "detail": detail})


def _question(name: str, value: Any) -> Question:
    place: Place = ("questions", name)
    fields = object_at(value, place)
    kind = fields.get("type")
    if kind not in ("noul", "choice", "score"):
        raise BadField((*place, "type"), "expected one of: noul, choice, score")
    asked, criteria, at = described(fields.get("instructions"), (*place, "instructions")), fields.get("criteria"), (*place, "criteria")
    if kind == "noul":
        return _noul(name, asked, criteria, place)
    if kind == "choice":
        options = object_at(criteria, at, 1, MAX_OPTIONS)
        meanings = tuple(described(meaning, (*at, option)) for option, meaning in options.items())
        return Question(name=name, instructions=asked, choices=tuple(options), descriptions=meanings if any(meanings) else ())
    levels = [content(level, (*at, i)) for i, level in enumerate(list_at(criteria, at, 1, MAX_LEVELS))]
    return Question(name=name, kind="score", instructions=asked, choices=unrepeated(levels, at))


def _noul(name: str, asked: str, criteria: Any, place: Place) -> Question:
    meant: Mapping[str, Any] = {} if criteria is None else object_at(criteria, (*place, "criteria"))
    meanings = tuple(described(meant.get(key), (*place, "criteria", key)) for key in ("true", "false"))
    if not asked and not any(meanings):
        raise BadField((*place, "instructions"), "is needed, or criteria")
    return Question(name=name, kind="predicate", instructions=asked, descriptions=meanings if any(meanings) else ())


def _rendered(question: Question, found: Answer) -> dict[str, Any]:
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
