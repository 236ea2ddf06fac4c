"""The stage `claims`: does the context support what the answer states?

While the model writes, the evidence is prepared in the background. Under gate delivery each sentence is read, judged and acted upon
before any of it leaves, the next one streaming meanwhile; otherwise all choices are judged in one batch when the answer is whole. JSON
answers are judged by their strings, and are therefore whole before they leave. Positions, figures and the record are those of the
model's own answer, before anything is taken out of it.

A claim whose check could not run is an ``error``, and `on_error` decides what becomes of it; one beyond `MAX_JUDGED` is unsure. What
answers a request without context is left alone: it has nothing to be faithful to, and the record says so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from proxy.context.faithful_texts import no_answer
from proxy.exchange import Answer, Choice, Exchange, Sentence, Verdict
from proxy.exchange.judgements import Claim, Judgement, faithfulness
from proxy.grounding.quality import refresh
from proxy.language.json.strings import looks_json
from proxy.offloop import SENTENCES, run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.stage import Action, SentenceStage, StageHeader, score_text
from proxy.stages.claims import acting, reporting
from proxy.stages.claims.judging import CLAIM, MAX_SAMPLE_CHARS, ClaimCase, ClaimJudge, Ground, JudgedAttempt, JudgedClaim
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.reading import AnswerStatement, has_bare_values, read_choices, read_refusals
from proxy.stages.claims.reporting import QualityPanel


class Claims(SentenceStage[ClaimsOptions]):
    """Checks every statement of the answer against the context; annotates, redacts, asks again, replaces or blocks."""

    name = "claims"
    Options = ClaimsOptions
    assigns = ("faithfulness", "claims")
    changes = ("answer",)
    counters = reporting.COUNTERS
    headers = (
        StageHeader(
            "faithfulness",
            "expected share of supported statements: the mean, over all that are checkable, of the calibrated probability that the "
            "evidence supports each; 1 or 0 where an exact rule decided",
            lambda facts, _: score_text(facts.faithfulness),
        ),
        StageHeader(
            "claims",
            "the answer's checkable statements by what was found of them; error is there where a check could not run",
            lambda facts, _: None if facts.claims is None else ",".join(f"{label}={count}" for label, count in facts.claims.items()),
        ),
    )
    panel = QualityPanel
    reports = (
        "x-groundwire-quality",
        "claims_contradicted",
        "claims_unsupported",
        "claims_unsure",
        "claims_unchecked",
        "json_value_kept",
        reporting.BLOCKED,
    )
    retryable = frozenset(("claims_unchecked",))
    answers_after = ("schema",)
    reads_passages = True
    verifies = True

    def __init__(self, options: ClaimsOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._judge = ClaimJudge(options, ports)
        self._cases: dict[str, ClaimCase] = {}
        """By exchange id, while it lasts."""

    @classmethod
    def local_models(cls, options: ClaimsOptions) -> tuple[bool, bool]:
        """It embeds by an option."""
        return options.embed, True

    @classmethod
    def blocks_answers(cls, options: ClaimsOptions) -> bool:
        """Every action but annotate."""
        return options.action != "annotate"

    @classmethod
    def needs_hold(cls, options: ClaimsOptions) -> str:
        """What has left cannot be asked for again."""
        return "action: retry" if options.action == "retry" else ""

    @classmethod
    def actions(cls, options: ClaimsOptions) -> tuple[Action, ...]:
        """By what fails, and what becomes of it."""
        return acting.actions_of(options)

    def by_sentence(self, exchange: Exchange) -> bool:
        """Not a JSON answer."""
        return exchange.wants.form != "json"

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """Prepare the evidence while the model writes; a retry is judged by what its first attempt was."""
        if not exchange.attempts:
            self._prepare(exchange)
        return None

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        """What was judged until then is known, and what was not."""
        case = self._cases.get(exchange.id)
        if case is not None and hook in ("sentence", "answer"):
            case.restore_attempt(len(exchange.attempts) - 1)
            if case.claims:
                self._publish(exchange, case)

    def release(self, exchange: Exchange) -> None:
        """Forget it."""
        case = self._cases.pop(exchange.id, None)
        if case is not None:
            case.close()

    async def stop(self) -> None:
        """Stop what is being prepared."""
        for case in self._cases.values():
            case.close()

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """Judge and act before it leaves."""
        case, options = self._case(exchange), self.options
        if sentence.choice in case.replaced:
            return reporting.of_sentence(sentence, options, "warn", case.replaced[sentence.choice], replacement="")
        if sentence.index == 0 and looks_json(sentence.text):
            case.json.add(sentence.choice)
        ground = await case.ground()
        if ground.skipped or sentence.choice in case.json:
            return None
        claims = case.reader(sentence.choice, ground.question).read(sentence.text, sentence.offset)
        text = case.beginning(sentence.choice, sentence.text)
        judged = await self._judge_text(exchange, case, [(sentence.choice, claim) for claim in claims], text)
        failing = [judgement for judgement in judged if acting.fails(judgement, options.fail_on)]
        if options.action == "block" and self._acts(case, sentence.choice):
            return self._block(case)
        left = self._keep_sentence(case, sentence, failing, ground.question) if failing else None
        if sentence.text.strip() if left is None else left:
            case.left.add(sentence.choice)
        if options.on_error == "closed" and any(judgement.label == "error" for judgement in judged):
            return reporting.of_sentence(sentence, options, "error", "claims_unchecked", left)
        return None if left is None else reporting.of_sentence(sentence, options, "warn", reporting.worst_code(failing), left)

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Judge what was not judged yet, act on it, and sum up."""
        if exchange.answer is None:
            return None
        found = bool(exchange.answer.sources)  # evidence that came with the answer
        case, options = self._prepare(exchange) if found else self._case(exchange), self.options
        ground = await case.ground()
        if not exchange.gated:
            case.forget()
        choices = () if ground.skipped else exchange.answer.choices
        whole = [c for c in choices if not exchange.gated or c.index in case.json]
        failing = await self._judge_choices(exchange, case, ground, whole)
        failing += await self._judge_refusals(exchange, case, ground, [c for c in choices if c.refusal.strip()])
        if exchange.gated and options.action == "annotate":
            await self._reconsider(exchange, case)
        if options.action == "retry":
            self._settle(exchange, case)
        acts = [c for c in choices if (c in whole or c.refusal.strip()) and self._acts(case, c.index)]
        if options.action == "block" and acts:
            return self._block(case)
        if options.action in ("redact", "replace") and acts:
            await self._change(exchange, acts, failing, ground.question)
        detail = await run_in_thread_if_large(len(case.claims) * CLAIM, reporting.detail_of, case.claims)
        *before, last = reporting.with_errors(reporting.of_answer(exchange, case, ground, options, detail), case.claims)
        exchange.verdicts += before
        return last

    # ---- judging ----

    def _case(self, exchange: Exchange) -> ClaimCase:
        """Of the exchange, with its evidence in preparation at least."""
        case = self._cases.get(exchange.id)
        return case if case is not None and case.prepared else self._prepare(exchange)

    def _prepare(self, exchange: Exchange) -> ClaimCase:
        case = self._cases.setdefault(exchange.id, ClaimCase(self.ports.judge.session(exchange, self.name)))
        case.prepare(self._judge.prepare(exchange, case))
        return case

    async def _judge_text(
        self, exchange: Exchange, case: ClaimCase, claims: Sequence[tuple[int, Claim]], text: str, *, refusal: bool = False
    ) -> list[Judgement]:
        """The judgement of each claim of `text`, in order; known to the exchange also when the check breaks off."""
        started = time.perf_counter()
        judged = await self._judge.judge_without_asking(case, claims)
        asked = [i for i, judgement in enumerate(judged) if judgement is None]
        with_judge = not exchange.gated or self.options.action != "annotate"
        try:
            answers = await self._judge.judge(case, [claims[i][1] for i in asked], text, with_judge=with_judge)
            for i, answer in zip(asked, answers, strict=True):
                judged[i] = answer
        finally:
            whole = [j if j is not None else Judgement(claims[i][1], "error", reason="interrupted") for i, j in enumerate(judged)]
            ms = (time.perf_counter() - started) * 1000
            self._add(exchange, case, [JudgedClaim(choice, j, ms, refusal) for (choice, _), j in zip(claims, whole, strict=True)])
        return whole

    async def _reconsider(self, exchange: Exchange, case: ClaimCase) -> None:
        """One call of the policy's judge for an answer that has left sentence by sentence, and is only reported on."""
        judged = await self._judge.reconsider(case, [one.judgement for one in case.claims], time.perf_counter())
        case.claims = [replace(one, judgement=judgement) for one, judgement in zip(case.claims, judged, strict=True)]
        self._publish(exchange, case)

    def _add(self, exchange: Exchange, case: ClaimCase, claims: Sequence[JudgedClaim]) -> None:
        if case.add(claims) or not claims:
            self._publish(exchange, case)
        labels: Counter[str] = Counter(one.judgement.label for one in claims)
        for label in reporting.CHECKED:
            if number := labels[label]:
                self._count(label, number)
                self._count("checked", number)

    def _publish(self, exchange: Exchange, case: ClaimCase) -> None:
        """The exchange knows what was found so far."""
        exchange.judgements = case.judgements()
        exchange.facts.faithfulness = faithfulness(one.judgement for one in case.claims)
        exchange.facts.claims = reporting.counted(case.claims)
        refresh(exchange)

    async def _judge_choices(self, exchange: Exchange, case: ClaimCase, ground: Ground, choices: Sequence[Choice]) -> list[AnswerStatement]:
        """All of `choices` in one batch; the failing statements."""
        json = exchange.wants.form == "json"

        def read() -> tuple[list[AnswerStatement], bool]:
            return read_choices(choices, ground.question, json=json), any(has_bare_values(choice.text, json=json) for choice in choices)

        statements, case.values = await run_in_thread_if_large(sum(len(choice.text) for choice in choices) * SENTENCES, read)
        return await self._failing(exchange, case, statements, [choice.text for choice in choices])

    async def _judge_refusals(
        self, exchange: Exchange, case: ClaimCase, ground: Ground, choices: Sequence[Choice]
    ) -> list[AnswerStatement]:
        """The failing statements in what `choices` refuse with."""
        size = sum(len(choice.refusal) for choice in choices) * SENTENCES
        statements = await run_in_thread_if_large(size, read_refusals, choices, ground.question)
        return await self._failing(exchange, case, statements, [choice.refusal for choice in choices]) if statements else []

    async def _failing(
        self, exchange: Exchange, case: ClaimCase, statements: Sequence[AnswerStatement], texts: Sequence[str]
    ) -> list[AnswerStatement]:
        sample, refusal = "\n".join(text[:MAX_SAMPLE_CHARS] for text in texts), bool(statements) and statements[0].refusal
        judged = await self._judge_text(exchange, case, [(one.choice, one.claim) for one in statements], sample, refusal=refusal)
        return [one for one, judgement in zip(statements, judged, strict=True) if acting.fails(judgement, self.options.fail_on)]

    # ---- acting ----

    def _acts(self, case: ClaimCase, choice: int) -> bool:
        """Whether the policy wants something done about a choice."""
        return any(acting.fails(judgement, self.options.fail_on) for judgement in reporting.of_choice(case.claims, choice))

    def _count(self, name: str, number: int = 1) -> None:
        self.ports.counters.count(f"claims.{name}_count", number)

    def _block(self, case: ClaimCase) -> Verdict:
        self._count("blocked")
        return reporting.blocked(case.claims, self.options)

    def _keep_sentence(self, case: ClaimCase, sentence: Sentence, failing: Sequence[Judgement], question: str) -> str | None:
        """What leaves instead of a failing sentence; None for itself."""
        if self.options.action == "replace" and self._acts(case, sentence.choice):
            case.replaced[sentence.choice] = reporting.worst_code(failing)
            self._count("replaced")
            return no_answer(self.options.replacement, sentence.text, question)
        if self.options.action != "redact":
            return None
        self._count("redacted", len(failing))
        left = acting.sentence_without(sentence, [judgement.claim for judgement in failing])
        alone = not left and sentence.final and sentence.choice not in case.left
        return no_answer(self.options.replacement, sentence.text, question) if alone else left

    async def _change(self, exchange: Exchange, choices: Sequence[Choice], failing: Sequence[AnswerStatement], question: str) -> None:
        """Redact or replace in what has not left: of an answer behind the gate, its refusals."""
        assert exchange.answer is not None
        action = self.options.action
        stays = [s for s in failing if not s.editable or (exchange.gated and not s.refusal)]
        if stays:
            detail = {"action": action, "kept": len(stays)}
            exchange.verdicts.append(Verdict(self.name, "warn", code="json_value_kept", detail=detail))
        for choice in choices:
            mine = [one for one in failing if one.choice == choice.index]
            text = choice.text if exchange.gated else await self._keep(choice, choice.text, [s for s in mine if not s.refusal], question)
            refusal = await self._keep(choice, choice.refusal, [s for s in mine if s.refusal], question)
            if (text, refusal) != (choice.text, choice.refusal):
                exchange.answer = exchange.answer.with_text(choice.index, text).with_refusal(choice.index, refusal)
                exchange.changes.append({"stage": self.name, "what": action, "choice": choice.index, "claims": len(mine)})

    async def _keep(self, choice: Choice, text: str, failing: Sequence[AnswerStatement], question: str) -> str:
        if not failing:
            return text
        redacts = self.options.action == "redact"
        self._count("redacted" if redacts else "replaced", sum(one.editable for one in failing) if redacts else 1)
        return await run_in_thread_if_large(len(text) * SENTENCES, acting.left_of, text, choice, failing, self.options, question)

    def _settle(self, exchange: Exchange, case: ClaimCase) -> None:
        """Ask again where the answer fails and there are tries left; else deliver the best answer, as the stages before have left it."""
        answer, present = exchange.answer or Answer(()), len(exchange.attempts) - 1
        if present < 0:
            return
        judgements, failing = [one.judgement for one in case.claims], acting.failing_of(case.claims, self.options.fail_on)
        case.attempts[present] = JudgedAttempt(tuple(case.claims), acting.rank(answer, judgements, failing))
        acts = [choice for choice in answer.choices if self._acts(case, choice.index)]
        if acts and exchange.attempts.possible and present < self.options.retries and not any(c.tool_calls for c in answer.choices):
            wrong = [j for j in reporting.of_choice(case.claims, acts[0].index) if acting.fails(j, self.options.fail_on)]
            exchange.retry = acting.asked_again(exchange.attempts[0].prompt.messages, acts[0], wrong)
            self._count("retried")
            return
        best = max(case.attempts, key=lambda i: (case.attempts[i].rank, i))
        if best != present:
            exchange.deliver = best
            case.restore_attempt(best)
            self._publish(exchange, case)
