"""The stage `work_claims`: what an agent says at a turn's end of the work it did, held against the results of its tools.

"All tests pass", "I updated `a.py`", "the order is cancelled": `statements` reads them, `run` what the calls state in a typed way, and
`findings` holds one against the other. The policy's judge, where there is one, is asked whether a doubted sentence says that work was done,
and whether the run supports the sentences that no rule decides (`asking`); with ``ask: all`` in whatever words and language. It warns and
never acts: the answer leaves as it is. Nothing is said of what is not certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.context.conversation import unread_size
from proxy.context.tool_results.turns import CalledTool, ToolResult
from proxy.exchange import Choice, Exchange, Verdict
from proxy.grounding.judging.questions import work_question
from proxy.offloop import SENTENCES, run_in_thread_if_large
from proxy.ports.judge import JudgeSession
from proxy.ports.stage import Action, Stage, StageOptions
from proxy.stages.work_claims.asking import SupportCheck, finding_of, support_checks
from proxy.stages.work_claims.figures import missing_figure
from proxy.stages.work_claims.findings import Finding, check_statement
from proxy.stages.work_claims.run import Run, run_of
from proxy.stages.work_claims.statements import AccountSentence, account_of, speaks_of_trouble, statements_of
from proxy.stages.work_claims.traces import check_command, check_failed_step, check_files, check_text, check_trace

UNSUPPORTED = "work_claim_unsupported"
MAX_CHARS = 400
"""Of a sentence in the record."""
MAX_ASKED = 16
"""Sentences of one account that a judge is asked about: one call of a chat model, where the run is short."""


class WorkClaimsOptions(StageOptions, frozen=True, kw_only=True):
    """``work_claims:``"""


class WorkClaims(Stage[WorkClaimsOptions]):
    """Holds an agent's account of its work against its tools' results."""

    name = "work_claims"
    Options = WorkClaimsOptions
    counters = {
        "work_claims.checked_count": "statements of agents that work was done",
        "work_claims.contradicted_count": "of them: the last result of that work is a failure",
        "work_claims.unsupported_count": "of them: no tool call did that work",
    }
    reports = (UNSUPPORTED,)

    @classmethod
    def actions(cls, options: WorkClaimsOptions) -> tuple[Action, ...]:
        """A warning."""
        return (Action("warn", UNSUPPORTED),)

    @classmethod
    def judges(cls, options: WorkClaimsOptions) -> bool:
        """Whether a sentence says that work was done."""
        return True

    def warm(self) -> None:
        """And read and compile the words."""
        super().warm()
        call = CalledTool("c", "run", '{"command": "true && x"}', 1, ToolResult(2, "3 of 4 passed, 2026-05-01 9:00"))
        run = Run([call], frozenset(("run",)), (), whole=True, declared=True, texts=("4",))
        for answer in (
            "All tests pass and lint is clean, I updated `a.py`, committed and pushed it.",
            "The order was cancelled, I refunded 12.50 €.",
        ):
            for statement in statements_of(answer):
                check_statement(statement, run)
            _check_sentences(answer, account_of(answer), run, set())

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Read the account, hold it against the run, warn."""
        texts = [choice for choice in exchange.answer.choices if _is_account(choice)] if exchange.answer is not None else []
        if not texts or not any(message.get("role") in ("tool", "function") for message in exchange.original.messages):
            return None
        session = self.ports.judge.session(exchange, self.name)
        size = unread_size(exchange) + sum(len(choice.text) for choice in texts) * SENTENCES
        run, statements, found = await run_in_thread_if_large(size, _read, exchange, texts, every=session is not None)
        if session is not None and run is not None:
            found = await self._ask_judge(session, run, texts, found)
        if not statements and not found:
            return None
        self.ports.counters.count("work_claims.checked_count", max(statements, len(found)))
        for finding in found:
            self.ports.counters.count(f"work_claims.{finding.label}_count")
        detail: dict[str, Any] = {"statements": max(statements, len(found))}
        if not found:
            return Verdict(self.name, "unchecked", detail=detail)
        return Verdict(self.name, "warn", UNSUPPORTED, detail=detail | {"doubted": [_record_of(finding) for finding in found]})

    async def _ask_judge(self, session: JudgeSession, run: Run, texts: Sequence[Choice], found: Sequence[Finding]) -> list[Finding]:
        """What is left of `found` when the judge has said what the sentences state, and what it finds in those that no rule decides."""
        known = {finding.sentence for finding in found}
        size = sum(map(len, run.texts)) + sum(len(choice.text) for choice in texts) * SENTENCES
        checks = await run_in_thread_if_large(size, _judge_checks, texts, run, known, every=session.ask == "all")
        doubts = [work_question(finding.sentence[:MAX_CHARS], finding.what) for finding in found]
        answers = await session.answers([*doubts, *(check.question for check in checks)])
        left = [finding for finding, answer in zip(found, answers, strict=False) if answer.choice != "no"]
        read = (finding_of(check, answer) for check, answer in zip(checks, answers[len(found) :], strict=True))
        return [*left, *(finding for finding in read if finding is not None)]


def _is_account(choice: Choice) -> bool:
    """Whether a turn ends with it: no further call is made."""
    return bool(choice.text.strip()) and not choice.tool_calls


def _read(exchange: Exchange, texts: Sequence[Choice], *, every: bool) -> tuple[Run | None, int, list[Finding]]:
    """The run, how many statements of work there are, and what speaks against them. Without any, and no judge, the run is not read."""
    statements = [statement for choice in texts for statement in statements_of(choice.text)]
    sentences = [(choice.text, account_of(choice.text)) for choice in texts]
    if not statements and not every and not any(account for _, account in sentences):
        return None, 0, []
    run = run_of(exchange)
    found = [finding for statement in statements if (finding := check_statement(statement, run)) is not None]
    for answer, account in sentences:
        found += _check_sentences(answer, account, run, {finding.sentence for finding in found})
    return run, len({one.sentence for one in statements} | {finding.sentence for finding in found}), found


def _check_sentences(answer: str, account: Sequence[AccountSentence], run: Run, known: set[str]) -> list[Finding]:
    """What speaks against sentences that no kind of work was found in: one finding each."""
    found: list[Finding] = []
    for sentence in account:
        if sentence.text in known:
            continue
        finding = check_trace(sentence, run) or check_command(sentence, run) or check_text(sentence, run)
        finding = finding or check_files(sentence, answer, run)
        if finding is None and run.whole and not run.unseen_end and (figure := missing_figure(sentence, run.figures)) is not None:
            finding = Finding("figure", sentence.text, sentence.text, "contradicted", f"{figure} stands nowhere in the run")
        if finding is not None:
            found.append(finding)
    known |= {finding.sentence for finding in found}
    if not known and "?" not in answer and not speaks_of_trouble(answer) and (step := check_failed_step(account, run)) is not None:
        found.append(step)
    return found


def _judge_checks(texts: Sequence[Choice], run: Run, known: set[str], *, every: bool) -> list[SupportCheck]:
    """What the judge is asked of the sentences that nothing was found in, the last ones of a long account."""
    sentences = [one for choice in texts for one in account_of(choice.text, every=every) if one.text not in known]
    return support_checks(sentences[-MAX_ASKED:], run)


def _record_of(finding: Finding) -> dict[str, Any]:
    """One finding for the record: the sentence, what speaks against it, and where that stands."""
    listed: dict[str, Any] = {
        "text": finding.sentence[:MAX_CHARS],
        "kind": finding.kind,
        "label": finding.label,
        "reason": finding.reason,
    }
    if finding.call is not None:
        result = finding.call.result
        listed["evidence"] = {"tool": finding.call.tool, "tool_call": finding.call.id, "message_index": result.message if result else None}
    return listed
