"""System One's shape: a ``state`` and named ``questions`` in, ``answers`` under the same names out; and Google's, which differs in names.

Reference: https://docs.typesafe.ai/api and the models of ``typesafe-sdk``, which are made from its OpenAPI; Google's:
https://ai.google.dev/gemini-api/docs/decisions and google-genai's ``types/decisions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from proxy.ports.decisions import Answer, Question
from proxy.wire.bodies import object_of
from proxy.wire.decisions.distributions import MISSING, REFUSED, answer, predicate

KINDS = {"predicate": "noul", "choice": "choice", "score": "score"}
"""Ours, and System One's word for it."""


class SystemOneShape:
    """Implements `proxy.wire.decisions.shape.Asked`."""

    state = "state"
    criteria = ("true", "false")
    """Of a yes and of a no."""

    def render_request(self, model: str, state: str, questions: Sequence[Question]) -> bytes:
        """Implements `Asked`."""
        return orjson.dumps({"model": model, self.state: state, "questions": {one.name: self._rendered(one) for one in questions}})

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """Implements `Asked`."""
        found = fields.get("answers")
        if not isinstance(found, dict):
            raise ValueError("no answers")
        return {question.name: _read(question, found.get(question.name)) for question in questions}

    def _rendered(self, question: Question) -> dict[str, Any]:
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
        """Implements `Asked`."""
        if object_of(fields.get("prompt_feedback")).get("block_reason"):
            return {question.name: REFUSED for question in questions}
        return super().parse_answers(fields, questions)

    def _meaning(self, option: str, text: str) -> str | None:
        return text or option


def _read(question: Question, entry: object) -> Answer:
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
