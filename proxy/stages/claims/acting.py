"""Act: what becomes of an answer with failing claims. Sentences taken out, the no-answer text, or another answer asked for. Pure functions.

Claims and evidence that a model is told about are quoted as JSON strings, which they cannot end: both may hold instructions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from proxy.context.faithful_texts import no_answer
from proxy.exchange import Answer, Choice, Message, Sentence
from proxy.exchange.judgements import Claim, Judgement, faithfulness
from proxy.grounding.claims.redaction import Span, redacted, redacted_sentence
from proxy.language.detection import language
from proxy.language.json.strings import strings_of, with_values
from proxy.language.patterns import wordings
from proxy.ports.stage import Action, ActionKind
from proxy.stages.claims.judging import JudgedClaim
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.reading import AnswerStatement, json_part

MAX_CLAIMS, MAX_CHARS = 20, 600
"""Failing claims that a model is told of, and characters of each."""
_FAILING = {
    "contradicted": ("contradicted",),
    "unsupported": ("contradicted", "unsupported"),
    "unsure": ("contradicted", "unsupported", "unsure"),
}
"""The labels that fail, by what the policy says."""
_KINDS: Mapping[str, ActionKind] = {"redact": "edit", "retry": "edit", "replace": "block", "block": "block"}


def actions_of(options: ClaimsOptions) -> tuple[Action, ...]:
    """Warnings and what else the policy does about each label that fails."""
    kinds: tuple[ActionKind, ...] = ("warn", *((kind,) if (kind := _KINDS.get(options.action)) else ()))
    return tuple(Action(kind, f"claims_{label}") for label in _FAILING[options.fail_on] for kind in kinds)


def fails(judgement: Judgement, fail_on: str) -> bool:
    """Whether the policy counts the claim as failing."""
    return judgement.label in _FAILING[fail_on]


def failing_of(claims: Sequence[JudgedClaim], fail_on: str) -> list[Judgement]:
    """Those of all claims."""
    return [one.judgement for one in claims if fails(one.judgement, fail_on)]


def left_of(text: str, choice: Choice, failing: Sequence[AnswerStatement], options: ClaimsOptions, question: str) -> str:
    """What leaves of `text`, the choice's text or its refusal, with these failing statements; where nothing does, the no-answer text."""
    if options.action == "replace":
        return _replace(text, failing, no_answer(options.replacement, text, question))
    left = _redact(text, failing)
    return left if left.strip() or (choice.tool_calls and not failing[0].refusal) else no_answer(options.replacement, text, question)


def _redact(text: str, failing: Sequence[AnswerStatement]) -> str:
    """`text` without its failing statements."""
    spans: dict[int | None, list[Span]] = {}
    for statement in failing:
        if statement.editable:
            spans.setdefault(statement.string, []).append(statement.span)
    if None in spans:
        return redacted(text, spans[None])
    start, end = json_part(text)
    strings = strings_of(text[start:end]) or []
    return _with_values(text, {i: redacted(strings[i].value, spans[i]) for i in spans if i is not None})


def _replace(text: str, failing: Sequence[AnswerStatement], instead: str) -> str:
    """`instead`; in a JSON answer, in place of each string that holds a failing statement."""
    if any(statement.string is None for statement in failing):
        return instead
    return _with_values(text, {one.string: instead for one in failing if one.editable and one.string is not None})


def _with_values(text: str, values: Mapping[int, str]) -> str:
    """A JSON answer with other strings at these positions; a fence around it stays."""
    start, end = json_part(text)
    return text[:start] + with_values(text[start:end], values) + text[end:] if values else text


def sentence_without(sentence: Sentence, failing: Sequence[Claim]) -> str:
    """What leaves of `sentence`, without the white space around it."""
    size = len(sentence.text)
    spans = [(max(0, claim.start - sentence.offset), min(size, claim.end - sentence.offset)) for claim in failing]
    return redacted_sentence(sentence.text, spans).strip()


# ---- asking again ----


class _Words(Struct, frozen=True):
    """One language's wording."""

    head: str
    statement: str
    evidence: str


_WORDS = wordings(__file__, _Words)


def asked_again(messages: Sequence[Message], choice: Choice, failing: Sequence[Judgement]) -> list[Message]:
    """`messages`, the answer, and what is wrong with it."""
    text = choice.text or choice.refusal
    return [*messages, {"role": "assistant", "content": text, **choice.thoughts}, {"role": "user", "content": correction(text, failing)}]


def correction(text: str, failing: Sequence[Judgement]) -> str:
    """In the answer's language, where it is one of the four."""
    words = _WORDS[language(text)]
    lines = [words.head]
    for judgement in failing[:MAX_CLAIMS]:
        lines.append(f"\n- {words.statement}: {_quote(judgement.claim.text)}")
        if judgement.evidence is not None:
            lines.append(f"  {words.evidence}: {_quote(judgement.evidence.text)}")
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


def _quote(text: str) -> str:
    return json.dumps(text[:MAX_CHARS], ensure_ascii=False)
