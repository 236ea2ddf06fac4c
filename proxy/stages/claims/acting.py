"""What becomes of a text with failing claims: sentences taken out, or the no-answer text. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.exchange import Choice, Sentence
from proxy.exchange.judgements import Claim, Judgement
from proxy.grounding.claims.redaction import redacted, redacted_sentence
from proxy.language.json.strings import strings_of, with_values
from proxy.ports.stage import Action, ActionKind
from proxy.stages.claims.checks import FoundClaims
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.reading import AnswerStatement, failing_spans, json_part

_FAILING = {
    "contradicted": ("contradicted",),
    "unsupported": ("contradicted", "unsupported"),
    "unsure": ("contradicted", "unsupported", "unsure"),
}
"""The labels that fail, by what the policy says."""
_KINDS: Mapping[str, ActionKind] = {"redact": "edit", "retry": "edit", "replace": "block", "block": "block"}


def fails(judgement: Judgement, fail_on: str) -> bool:
    """Whether the policy counts the claim as failing."""
    return judgement.label in _FAILING[fail_on]


def failing_of(found: Sequence[FoundClaims], fail_on: str) -> list[Judgement]:
    """Those of all that was found."""
    return [one.judgement for one in found if fails(one.judgement, fail_on)]


def actions_of(options: ClaimsOptions) -> tuple[Action, ...]:
    """Warnings and what else the policy does about each label that fails."""
    kinds: tuple[ActionKind, ...] = ("warn", *((kind,) if (kind := _KINDS.get(options.action)) else ()))
    found = [Action(kind, f"claims_{label}") for label in _FAILING[options.fail_on] for kind in kinds]
    if options.tool_arguments != "skip":
        found.append(Action("block" if options.tool_arguments == "block" else "warn", "tool_arguments_unsupported"))
    return tuple(found)


def without(choice: Choice, failing: Sequence[AnswerStatement], marker: str) -> str:
    """`choice`'s text without its failing statements."""
    spans = failing_spans([statement for statement in failing if statement.editable])
    if None in spans:
        return redacted(choice.text, spans[None], marker)
    start, end = json_part(choice.text)
    strings = strings_of(choice.text[start:end]) or []
    return _with_values(
        choice.text, {number: redacted(strings[number].value, found, marker) for number, found in spans.items() if number is not None}
    )


def instead_of(choice: Choice, failing: Sequence[AnswerStatement], text: str) -> str:
    """`text`; in a JSON answer, in place of each string that holds a failing statement."""
    if any(statement.string is None for statement in failing):
        return text
    values = {statement.string: text for statement in failing if statement.editable and statement.string is not None}
    return _with_values(choice.text, values)


def _with_values(text: str, values: Mapping[int, str]) -> str:
    """A JSON answer with other strings at these positions; a fence around it stays."""
    start, end = json_part(text)
    return text[:start] + with_values(text[start:end], values) + text[end:] if values else text


def sentence_without(sentence: Sentence, failing: Sequence[Claim], marker: str) -> str:
    """What leaves of `sentence`, without the white space around it."""
    size = len(sentence.text)
    spans = [(max(0, claim.start - sentence.offset), min(size, claim.end - sentence.offset)) for claim in failing]
    return redacted_sentence(sentence.text, spans, marker).strip()
