"""What a judge is asked, in words: one wording for each purpose, whoever answers; and what a policy says of who that is: ``judge:``, and
``second_opinion:``, its old name.

judge: {upstream: openai, model: gpt-4o-mini, kind: chat, ask: unsure, max_usd_per_day: 2}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.ports.judge import AskAbout, JudgeQuestion
from proxy.ports.stage import Share

YES_NO = ("yes", "no")
SUPPORT = ("supported", "contradicted", "neither")
_SUPPORTED = (
    "Does the evidence support the statement? It is supported when the evidence says all of it, contradicted when the evidence says "
    "otherwise, and neither when the evidence does not say it, or only a part of it. Numbers, dates, names, units, conditions and "
    "negations must agree; where the statement gives a thing the value of another, it is contradicted. What the evidence marks as (user) "
    "is the asker's: what they only believe, guess or wish contradicts nothing, what they gave to work with counts."
)
_HELPFUL = (
    "Does the evidence hold the information that the question in the statement asks for? Evidence that is merely about the same subject "
    "does not."
)
_FAILED = (
    "Is the statement the result of a tool call that failed: an error, a refusal, a missing thing that stopped it? A result that only "
    "tells of errors, such as a log, a document or a search's finding, is of a call that worked. The evidence is the call."
)
_CORRECTS = (
    "Does the message in the statement tell the assistant that what it said or did in the evidence is wrong? Thanks, an answer to its "
    "question, a new wish, a change of mind and somebody else's mistake do not."
)
_WORK = (
    "Does the statement, from an agent's account of its work, say as a fact that the work in the evidence is done? A plan, a wish, a "
    "condition, a quotation, a question, what somebody else did, and that it failed or was not done do not."
)
_COMPATIBLE = "Can both sentences of the statement be true of the same person or thing at the same time?"


def support_question(statement: str, evidence: Sequence[str], language: str = "en") -> JudgeQuestion:
    """Whether `evidence` supports or contradicts a statement."""
    return JudgeQuestion(
        purpose="support",
        instructions=_SUPPORTED,
        choices=SUPPORT,
        statement=statement,
        evidence=tuple(evidence),
        language=language,
    )


def relevance_question(question: str, passages: Sequence[str], language: str = "en") -> JudgeQuestion:
    """Whether `passages` can answer a user's question."""
    return _predicate("relevance", _HELPFUL, question, passages, language)


def compatible_question(older: str, newer: str, language: str = "en") -> JudgeQuestion:
    """Whether two statements can both be true now."""
    return _predicate("clash", _COMPATIBLE, f"1. {older}\n2. {newer}", (), language)


def failed_question(result: str, call: str) -> JudgeQuestion:
    """Whether a tool call failed, by what came of it."""
    return _predicate("failure", _FAILED, result, (call,), "")


def correction_question(message: str, before: str) -> JudgeQuestion:
    """Whether a user's message corrects what the assistant said `before`."""
    return _predicate("correction", _CORRECTS, message, (before,) if before else (), "")


def work_question(sentence: str, work: str) -> JudgeQuestion:
    """Whether a sentence of an agent says that `work` is done."""
    return _predicate("work", _WORK, sentence, (work,), "")


def _predicate(purpose: str, instructions: str, statement: str, evidence: Sequence[str], language: str) -> JudgeQuestion:
    return JudgeQuestion(
        purpose=purpose,
        kind="predicate",
        instructions=instructions,
        choices=YES_NO,
        statement=statement,
        evidence=tuple(evidence),
        language=language,
    )


# ---- who is asked ----


class JudgeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``judge:`` of a policy: who is asked what a text means."""

    kind: Annotated[
        Literal["decisions", "chat", "builtin"],
        Meta(
            description="decisions: a decision model of the upstream, which answers with probabilities; chat: any chat model; builtin: "
            "the models of this process alone"
        ),
    ] = "chat"
    upstream: Annotated[str, Meta(description="an upstream of config.yaml with a key of its own; not for builtin")] = ""
    model: Annotated[
        str,
        Meta(
            description="model name, as that upstream knows it; of builtin a folder in the built-in verifier's format, and nothing for "
            "the built-in one"
        ),
    ] = ""
    ask: Annotated[
        AskAbout,
        Meta(
            description="what it is asked about: what the built-in models are not sure to hold (unsure), or every statement that nothing "
            "exact decides (all)"
        ),
    ] = "unsure"
    timeout_ms: Annotated[
        float, Meta(gt=0, description="longest wait for its answers, retries included; then the built-in ones' stand")
    ] = 4000
    max_usd_per_day: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="what it may cost from midnight to midnight, UTC, all workers and servers that share a store together; it needs a "
            "known price",
        ),
    ] = None
    readout: Annotated[
        Literal["json", "logprobs"],
        Meta(
            description="chat: how its answers are read: many questions a call, answered in JSON, or one a call, by the log "
            "probabilities of the first token of its answer"
        ),
    ] = "json"
    params: Annotated[Mapping[str, Any], Meta(description="chat: further fields of the call, as max_tokens")] = {}
    temperature: Annotated[
        float, Meta(gt=0, description="its probabilities are flattened (above 1) or sharpened by it; groundwire judge calibrate fits it")
    ] = 1.0
    min_support: Annotated[Share, Meta(description="probability from which its supported counts")] = 0.6
    min_contradiction: Annotated[Share, Meta(description="probability from which its contradicted counts")] = 0.6

    def __post_init__(self) -> None:
        if self.kind == "builtin" and self.upstream:
            raise ValueError("upstream is for kind: decisions and kind: chat")
        if self.kind != "builtin" and not (self.upstream and self.model):
            raise ValueError(f"kind {self.kind} needs upstream and model")


class SecondOpinion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``second_opinion:`` of a policy: the old name of a judge that is asked about what the built-in one is unsure of."""

    upstream: Annotated[str, Meta(min_length=1, description="an upstream of config.yaml with a key of its own")]
    model: Annotated[str, Meta(min_length=1, description="model name, as that upstream knows it")]
    timeout_s: Annotated[float, Meta(gt=0, description="longest wait for its judgement, retries included")] = 4.0
    params: Annotated[Mapping[str, Any], Meta(description="further fields of the call, as max_tokens")] = {}

    @property
    def judge(self) -> JudgeOptions:
        """The same as a judge."""
        return JudgeOptions(
            kind="chat", upstream=self.upstream, model=self.model, ask="unsure", timeout_ms=self.timeout_s * 1000, params=self.params
        )
