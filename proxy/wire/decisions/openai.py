"""OpenAI's shape: ``input`` and a list of ``questions`` in, a list of ``answers`` out, in the same order and under the same names.

Reference: https://platform.openai.com/docs/api-reference/decisions, and openai-python's ``types/decision.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from proxy.ports.decisions import Answer, Question
from proxy.wire.decisions.distributions import MISSING, REFUSED, answer, predicate


class OpenAIShape:
    """Implements `proxy.wire.decisions.shape.Asked`."""

    def render_request(self, model: str, state: str, questions: Sequence[Question]) -> bytes:
        """Implements `Asked`."""
        return orjson.dumps({"model": model, "input": state, "questions": [_rendered(question) for question in questions]})

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """Implements `Asked`. An answer belongs to the question whose name it has; by its place only where not one of them has a name."""
        found = fields.get("answers")
        if not isinstance(found, list):
            raise ValueError("no list of answers")
        entries = [entry if isinstance(entry, dict) else {} for entry in found]
        if len(entries) == len(questions) and not any(entry.get("name") for entry in entries):
            return {question.name: _read(question, entry) for question, entry in zip(questions, entries, strict=True)}
        named: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            named.setdefault(str(entry.get("name")), []).append(entry)
        return {question.name: _of_name(question, named.get(question.name, [])) for question in questions}


def _of_name(question: Question, entries: Sequence[Mapping[str, Any]]) -> Answer:
    if not entries:
        return MISSING
    return _read(question, entries[0]) if len(entries) == 1 else Answer(problem=f"wrong names: {len(entries)} answers to one question")


def _read(question: Question, entry: Mapping[str, Any]) -> Answer:
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


def _rendered(question: Question) -> dict[str, Any]:
    made: dict[str, Any] = {"type": question.kind, "name": question.name, "instructions": question.instructions}
    if question.kind == "predicate":
        rules = (f"Answer {option} when: {text}" for option, text in _described(question) if text)
        made["instructions"] = "\n\n".join((question.instructions, *rules))
        return made
    list_name, key = ("choices", "value") if question.kind == "choice" else ("levels", "label")
    made[list_name] = [{key: option, **({"description": text} if text else {})} for option, text in _described(question)]
    return made


def _described(question: Question) -> list[tuple[str, str]]:
    return list(zip(question.options, question.descriptions or ("",) * len(question.options), strict=True))
