"""What leaves instead of an answer's failing statements, as the policy's `action` says."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.context.no_answer import no_answer
from proxy.exchange import Choice, Exchange, Sentence, Verdict
from proxy.exchange.judgements import Judgement
from proxy.grounding.evidence.gathering import question_of
from proxy.offloop import SENTENCES, run_in_thread_if_large
from proxy.ports import Counters
from proxy.stages.claims import refusals
from proxy.stages.claims.acting import instead_of, sentence_without, without
from proxy.stages.claims.checks import Checks
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.reading import AnswerStatement
from proxy.stages.claims.reporting import worst_code


class Changes:
    """Of one policy's stage."""

    def __init__(self, name: str, options: ClaimsOptions, counters: Counters) -> None:
        self._name, self._options, self._counters = name, options, counters

    def instead(self, exchange: Exchange, checks: Checks, sentence: Sentence, failing: Sequence[Judgement], *, acts: bool) -> str | None:
        """What leaves instead of a failing sentence; None for itself. `acts` is whether its choice is to be replaced."""
        if self._options.action == "replace" and acts:
            checks.replaced[sentence.choice] = worst_code(failing)
            self._counters.count("claims.replaced_count")
            return self._no_answer(exchange, sentence.text)
        if self._options.action != "redact":
            return None
        self._counters.count("claims.redacted_count", len(failing))
        text = sentence_without(sentence, [judgement.claim for judgement in failing], self._options.marker)
        if not text and sentence.final and sentence.choice not in checks.left:
            return self._no_answer(exchange, sentence.text)
        return text

    def _no_answer(self, exchange: Exchange, said: str) -> str:
        return no_answer(self._options.replacement, said, question_of(exchange))

    async def change(self, exchange: Exchange, acting: Sequence[Choice], failing: Sequence[AnswerStatement]) -> None:
        """Redact or replace in what has not left: of an answer behind the gate, its refusals."""
        if exchange.answer is None or self._options.action not in ("redact", "replace") or not acting:
            return
        kept = [s for s in failing if not s.editable or (exchange.gated and not s.refusal)]
        if kept:
            detail = {"action": self._options.action, "kept": len(kept)}
            exchange.verdicts.append(Verdict(self._name, "warn", code="json_value_kept", detail=detail))
        for choice in acting:
            mine = [statement for statement in failing if statement.choice == choice.index]
            in_text, in_refusal = [s for s in mine if not s.refusal], [s for s in mine if s.refusal]
            text = await self._changed(exchange, choice, in_text) if in_text and not exchange.gated else choice.text
            refusal = await self._changed_refusal(exchange, choice, in_refusal) if in_refusal else choice.refusal
            if (text, refusal) != (choice.text, choice.refusal):
                exchange.answer = exchange.answer.with_text(choice.index, text).with_refusal(choice.index, refusal)
                exchange.changes.append({"stage": self._name, "what": self._options.action, "choice": choice.index, "claims": len(mine)})

    async def _changed(self, exchange: Exchange, choice: Choice, failing: Sequence[AnswerStatement]) -> str:
        """`choice`'s text as it leaves; of a text of which redaction leaves nothing, the no-answer text."""
        if self._options.action == "replace":
            self._counters.count("claims.replaced_count")
            return instead_of(choice, failing, self._no_answer(exchange, choice.text))
        self._counters.count("claims.redacted_count", sum(statement.editable for statement in failing))
        text = await run_in_thread_if_large(len(choice.text) * SENTENCES, without, choice, failing, self._options.marker)
        return text if text.strip() or choice.tool_calls else self._no_answer(exchange, choice.text)

    async def _changed_refusal(self, exchange: Exchange, choice: Choice, failing: list[AnswerStatement]) -> str:
        """`choice`'s refusal as it leaves."""
        redacting = self._options.action == "redact"
        self._counters.count("claims.redacted_count" if redacting else "claims.replaced_count", len(failing) if redacting else 1)
        text = ""
        if redacting:
            text = await run_in_thread_if_large(len(choice.refusal) * SENTENCES, refusals.without, choice, failing, self._options.marker)
        return text if text.strip() else self._no_answer(exchange, choice.refusal)
