"""Asking again: what the model is told about its answer's failing claims, and which of its answers was the best. Pure functions.

Claims and evidence are quoted as JSON strings, which they cannot end: both may hold instructions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from proxy.exchange import Answer, Message
from proxy.exchange.judgements import Judgement, faithfulness
from proxy.language.detection import language
from proxy.language.wordings import wordings

MAX_CLAIMS = 20
MAX_CHARS = 600


class _Words(Struct, frozen=True):
    """One language's wording."""

    head: str
    statement: str
    evidence: str


_WORDS = wordings(__file__, _Words)


def asked_again(messages: Sequence[Message], said: str, failing: Sequence[Judgement]) -> list[Message]:
    """`messages`, the answer `said`, and what is wrong with it."""
    return [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": correction(said, failing)}]


def correction(said: str, failing: Sequence[Judgement]) -> str:
    """In the answer's language, where it is one of the four."""
    words = _WORDS[language(said)]
    lines = [words.head]
    for judgement in failing[:MAX_CLAIMS]:
        lines.append(f"\n- {words.statement}: {_quoted(judgement.claim.text)}")
        if judgement.evidence is not None:
            lines.append(f"  {words.evidence}: {_quoted(judgement.evidence.text)}")
    return "\n".join(lines)


def rank(answer: Answer, judgements: Sequence[Judgement], failing: Sequence[Judgement]) -> tuple[float, ...]:
    """How good an answer is: it says something, was checked, nothing in it fails, more is supported, less is contradicted."""
    share = faithfulness(judgements)
    return (
        float(any(choice.text.strip() or choice.tool_calls for choice in answer.choices)),
        -float(any(judgement.label == "error" for judgement in judgements)),
        -float(bool(failing)),
        1.0 if share is None else share,
        -float(sum(judgement.label == "contradicted" for judgement in judgements)),
    )


def _quoted(text: str) -> str:
    return json.dumps(text[:MAX_CHARS], ensure_ascii=False)
