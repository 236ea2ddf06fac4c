"""The stage `claims`: does the context support what the answer states?

While the model writes, the evidence is prepared in the background. Under gate delivery each sentence is read, judged and acted upon
before any of it leaves, the next one streaming meanwhile; otherwise all choices are judged in one batch when the answer is whole. JSON
answers are judged by their strings, and are therefore whole before they leave. Positions, figures and the record are those of the
model's own answer, before anything is taken out of it.

A claim whose check could not run is an ``error``, and `on_error` decides what becomes of it; one beyond `max_claims` is unsure. What
answers a request without context is left alone: it has nothing to be faithful to, and the record says so.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange import Answer, Choice, Exchange, Sentence, Verdict
from proxy.exchange.judgements import Claim, Judgement, faithfulness
from proxy.grounding.claims.made_up import asks_to_make_up
from proxy.grounding.evidence.gathering import EvidenceBase, EvidenceScope, gather, question_of
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from proxy.grounding.judging.grounder import EMBED_ALL, Grounder
from proxy.grounding.judging.reconsidering import ask_ahead, reconsidered
from proxy.grounding.quality import refresh
from proxy.grounding.values.places import words_of
from proxy.language.detection import language, load
from proxy.language.json.strings import looks_json
from proxy.offloop import SENTENCES, each, run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.headers import StageHeader, score_text
from proxy.ports.stage import Action, SentenceStage
from proxy.stages.claims import refusals
from proxy.stages.claims.acting import actions_of, failing_of, fails
from proxy.stages.claims.arguments import Argument, arguments_of, literals
from proxy.stages.claims.changing import Changes
from proxy.stages.claims.checks import BEYOND, MAX_SAMPLE_CHARS, Checks, FoundClaims, Ground, JudgedAttempt, filled, settled, within
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.panel import QualityPanel
from proxy.stages.claims.reading import TOO_MANY_STATEMENTS, AnswerStatement, bounded, has_bare_values, read_choice
from proxy.stages.claims.reporting import COUNTERS, counted, detail_of, of_choice, worst_code
from proxy.stages.claims.retrying import asked_again, rank
from proxy.stages.claims.verdicts import BLOCKED, CHECKED, MADE_UP, NO_CONTEXT, Verdicts

_SHORT_CHARS = 60
"""A shorter answer may not tell its language."""
_DEADLINE = 0.9
"""Share of the stage's time after which what is still open is an error, so that what was found is not lost."""
CLAIM = 100
"""What is done for a claim beside its judgement takes as long as a pass over so many characters."""


class Claims(SentenceStage[ClaimsOptions]):
    """Checks every statement of the answer against the context; annotates, redacts, asks again, replaces or blocks."""

    name = "claims"
    Options = ClaimsOptions
    assigns = ("faithfulness", "claims")
    changes = ("answer",)
    counters = COUNTERS
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
        "tool_arguments_unsupported",
        BLOCKED,
    )
    retryable = frozenset(("claims_unchecked",))
    answers_after = ("schema",)
    reads_passages = True
    verifies = True

    def __init__(self, options: ClaimsOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self.embeds = options.embed
        self._verifier = ports.verifiers.get(ports.judge.local_model)
        self._changes = Changes(self.name, options, ports.counters)
        self._verdicts = Verdicts(self.name, options, ports.counters)
        self._kept: dict[str, Checks] = {}
        """By exchange id, while it lasts."""

    def warm(self) -> None:
        """Read the model that tells languages."""
        load()

    @classmethod
    def blocks_answers(cls, options: ClaimsOptions) -> bool:
        """Every action but annotate, and blocking a tool call."""
        return options.action != "annotate" or options.tool_arguments == "block"

    @classmethod
    def needs_hold(cls, options: ClaimsOptions) -> str:
        """What has left cannot be asked for again; calls of tools leave the gate at once."""
        if options.action == "retry":
            return "action: retry"
        return "tool_arguments: block" if options.tool_arguments == "block" else ""

    @classmethod
    def actions(cls, options: ClaimsOptions) -> tuple[Action, ...]:
        """By what fails, and what becomes of it."""
        return actions_of(options)

    def by_sentence(self, exchange: Exchange) -> bool:
        """Not a JSON answer."""
        return exchange.wants.form != "json"

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """Prepare the evidence while the model writes; a retry is judged by what its first attempt was."""
        if not exchange.attempts:
            self._of(exchange).prepare(self._prepare(exchange))
        return None

    def broke_off(self, exchange: Exchange, hook: str) -> None:
        """What was judged until then is known, and what was not."""
        checks = self._kept.get(exchange.id)
        if checks is not None and hook in ("sentence", "answer"):
            checks.back_to(len(exchange.attempts) - 1)
            if checks.found:
                self._tell(exchange, checks)

    def release(self, exchange: Exchange) -> None:
        """Forget it."""
        checks = self._kept.pop(exchange.id, None)
        if checks is not None:
            checks.close()

    async def stop(self) -> None:
        """Stop what is being prepared."""
        for checks in self._kept.values():
            checks.close()

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """Judge and act before it leaves."""
        checks = await self._ready(exchange)
        if sentence.choice in checks.replaced:
            return self._verdicts.of_sentence(sentence, "warn", checks.replaced[sentence.choice], replacement="")
        if sentence.index == 0 and looks_json(sentence.text):
            checks.json.add(sentence.choice)
        ground = await checks.ground()
        if ground.skipped or sentence.choice in checks.json:
            return None
        claims = checks.reader(sentence.choice, ground.sample).read(sentence.text, sentence.offset)
        said = checks.said(sentence.choice, sentence.text)
        judged = await self._judge(exchange, checks, [(sentence.choice, claim) for claim in claims], said)
        failing = [judgement for judgement in judged if fails(judgement, self.options.fail_on)]
        if self.options.action == "block" and self._acts(checks, sentence.choice):
            return self._verdicts.blocked(checks)
        text = None
        if failing:
            text = self._changes.instead(exchange, checks, sentence, failing, acts=self._acts(checks, sentence.choice))
        if sentence.text.strip() if text is None else text:
            checks.left.add(sentence.choice)
        if self.options.on_error == "closed" and any(judgement.label == "error" for judgement in judged):
            return self._verdicts.of_sentence(sentence, "error", "claims_unchecked", text)
        return None if text is None else self._verdicts.of_sentence(sentence, "warn", worst_code(failing), text)

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Judge what was not judged yet, act on it, and sum up."""
        if exchange.answer is None:
            return None
        checks = await self._ready(exchange)
        ground = await checks.ground()
        if not exchange.gated:
            checks.forget()
        said = () if ground.skipped else exchange.answer.choices
        choices = [c for c in said if not exchange.gated or c.index in checks.json]
        failing = await self._judge_choices(exchange, checks, choices)
        failing += await self._judge_refusals(exchange, checks, [c for c in said if c.refusal.strip()])
        if exchange.gated and self.options.action == "annotate":
            await self._reconsider_all(exchange, checks)
        settled = self._settled(exchange, checks) if self.options.action == "retry" else exchange.answer
        arguments = await self._judge_arguments(exchange, settled, ground) if exchange.retry is None else []
        acting = [c for c in said if (c in choices or c.refusal.strip()) and self._acts(checks, c.index)]
        if self.options.action == "block" and acting:
            return self._verdicts.blocked(checks)
        await self._changes.change(exchange, acting, failing)
        detail = await run_in_thread_if_large(len(checks.found) * CLAIM, detail_of, checks.found)
        return self._verdicts.summed_up(exchange, checks, ground, arguments, detail)

    # ---- judging ----

    def _of(self, exchange: Exchange) -> Checks:
        if exchange.id not in self._kept:
            self._kept[exchange.id] = Checks(self.ports.judge.session(exchange, self.name))
        return self._kept[exchange.id]

    async def _ready(self, exchange: Exchange) -> Checks:
        checks = self._of(exchange)
        if not checks.prepared:
            checks.prepare(self._prepare(exchange))
        return checks

    async def _prepare(self, exchange: Exchange) -> Ground:
        options, skips = self.options, self.options.without_context == "skip" and self.options.tool_arguments == "skip"
        evidence = await run_in_thread_if_large(
            exchange.original.size + sum(len(one.content) for one in exchange.evidence), gather, exchange
        )
        question = await run_in_thread_if_large(exchange.original.size, question_of, exchange)
        base = await run_in_thread_if_large(sum(len(one.content) for one in evidence), EvidenceBase, evidence)
        scope: EvidenceScope = (
            "all" if options.without_context == "check" else await run_in_thread_if_large(exchange.original.size, base.scope, question)
        )
        skipped = "" if scope or exchange.knowledge is not None else NO_CONTEXT
        if skipped and skips:
            base = EvidenceBase(())
        if not skipped and asks_to_make_up(question):
            skipped = MADE_UP
        words = await run_in_thread_if_large(base.chars, words_of, " ".join(base.sentences)) if scope == "declared" else frozenset[str]()
        if options.embed and not skipped and base.chars > EVIDENCE_CHARS and len(base) <= EMBED_ALL:
            self._of(exchange).warm(self._embed(base))
        return Ground(base, self._grounder(scope), question, skipped, exchange.knowledge, scope, words)

    def _grounder(self, scope: EvidenceScope) -> Grounder:
        options, (low, high) = self.options, self.options.bounds()
        return Grounder(
            self._verifier,
            embedder=self.ports.embedder if options.embed else None,
            min_support=high,
            min_contradiction=options.min_contradiction,
            only_certain=True,
            low=low,
            compares=scope != "pasted",  # there another value is never more than unsure
        )

    async def _embed(self, base: EvidenceBase) -> None:
        """So that the embedder has the evidence in its cache when a claim needs it."""
        with suppress(ModelUnavailable):
            await self.ports.embedder.embed(base.sentences, bulk=True)

    async def _judge(
        self, exchange: Exchange, checks: Checks, claims: Sequence[tuple[int, Claim]], said: str, *, refusal: bool = False
    ) -> list[Judgement]:
        """The judgement of each claim of `said`, in order; noted in the exchange also when the check breaks off."""
        ground, started = await checks.ground(), time.perf_counter()
        judged = await run_in_thread_if_large(len(claims) * CLAIM, self._unasked, checks, ground, claims)
        open_ = [i for i, judgement in enumerate(judged) if judgement is None]
        now = not exchange.gated or self.options.action != "annotate"
        try:
            if now and checks.judge is not None and checks.judge.ask == "all" and ground.scope == "all":
                await ask_ahead([claims[i][1] for i in open_], ground.base, checks.judge, self._left_s(started))
            answers = await self._ask(ground, [claims[i][1] for i in open_], said)
            answers = [within(answer, ground.scope) for answer in answers]
            if now:
                answers = list(await self._reconsidered(checks, answers, started))
            judged = filled(judged, dict(zip(open_, answers, strict=True)))
        finally:
            whole = [j if j is not None else Judgement(claims[i][1], "error", reason="interrupted") for i, j in enumerate(judged)]
            ms = (time.perf_counter() - started) * 1000
            self._note(exchange, checks, [FoundClaims(choice, j, ms, refusal) for (choice, _), j in zip(claims, whole, strict=True)])
        return whole

    async def _ask(self, ground: Ground, claims: Sequence[Claim], said: str) -> list[Judgement]:
        """Of claims in `said`, whose language the question tells where it is short; within most of the stage's time."""
        if not claims:
            return []
        sample = said if len(said) >= _SHORT_CHARS else f"{said}\n{ground.sample}"
        deadline_s = self.options.timeout_ms * _DEADLINE / 1000
        by_context = ground.grounder.judge(claims, ground.base, answer=sample, deadline_s=deadline_s)
        if ground.knowledge is None:
            return await by_context
        tongue = await asyncio.to_thread(language, sample)
        judged, known = await asyncio.gather(by_context, ground.knowledge.judge(claims, tongue=tongue, deadline_s=deadline_s))
        return [settled(c, k, ground.scope) for c, k in zip(judged, known, strict=True)]

    async def _reconsidered(self, checks: Checks, judged: Sequence[Judgement], started: float) -> Sequence[Judgement]:
        """With the word of the policy's judge on what is open to it, in what is left of the stage's time."""
        ground, left_s = await checks.ground(), self._left_s(started)
        every = checks.judge is not None and checks.judge.ask == "all"

        def reopens(judgement: Judgement) -> bool:
            """What is not checkable because the built-in models found nothing of it among the little that was said."""
            return every and judgement.reason == BEYOND and ground.speaks_of(judgement.claim)

        return await reconsidered(judged, ground.base, checks.judge, left_s, reopens=reopens)

    def _left_s(self, started: float) -> float:
        return max(0.01, self.options.timeout_ms * _DEADLINE / 1000 - (time.perf_counter() - started))

    async def _reconsider_all(self, exchange: Exchange, checks: Checks) -> None:
        """One call for an answer that has left sentence by sentence, and is only reported on."""
        judged = await self._reconsidered(checks, [one.judgement for one in checks.found], time.perf_counter())
        checks.found = [replace(one, judgement=judgement) for one, judgement in zip(checks.found, judged, strict=True)]
        self._tell(exchange, checks)

    def _unasked(self, checks: Checks, ground: Ground, claims: Sequence[tuple[int, Claim]]) -> list[Judgement | None]:
        """The judgements of claims that nobody is asked about: not checkable, or too many; None for the others."""
        used = {choice: checks.checkable.get(choice, 0) for choice, _ in claims}
        found: list[Judgement | None] = []
        for choice, claim in claims:
            used[choice] += claim.checkable
            if claim.reason == TOO_MANY_STATEMENTS:
                found.append(Judgement(claim, "unsure", reason=TOO_MANY_STATEMENTS))
            elif claim.checkable and used[choice] > self.options.max_claims:
                found.append(Judgement(claim, "unsure", reason=f"more than {self.options.max_claims} claims (max_claims)"))
            else:
                asked, reason = claim.checkable and ground.speaks_of(claim), claim.reason if not claim.checkable else BEYOND
                found.append(None if asked else Judgement(claim, "not_checkable", reason=reason))
        return found

    def _note(self, exchange: Exchange, checks: Checks, found: Sequence[FoundClaims]) -> None:
        if checks.note(found) or not found:
            self._tell(exchange, checks)
        labels: Counter[str] = Counter(one.judgement.label for one in found)
        for label in CHECKED:
            if number := labels[label]:
                self.ports.counters.count(f"claims.{label}_count", number)
                self.ports.counters.count("claims.checked_count", number)

    def _tell(self, exchange: Exchange, checks: Checks) -> None:
        """The exchange knows what was found so far."""
        exchange.judgements = checks.judgements()
        exchange.facts.faithfulness = faithfulness(one.judgement for one in checks.found)
        exchange.facts.claims = counted(checks.found)
        refresh(exchange)

    async def _judge_choices(self, exchange: Exchange, checks: Checks, choices: Sequence[Choice]) -> list[AnswerStatement]:
        """All of `choices` in one batch; the failing statements."""
        question, json = (await checks.ground()).sample, exchange.wants.form == "json"

        def read() -> tuple[list[AnswerStatement], bool]:
            statements = [s for choice in each(choices) for s in bounded(read_choice(choice, question, json=json))]
            return statements, any(has_bare_values(choice.text, json=json) for choice in choices)

        statements, checks.values = await run_in_thread_if_large(sum(len(choice.text) for choice in choices) * SENTENCES, read)
        said = "\n".join(choice.text[:MAX_SAMPLE_CHARS] for choice in choices)
        judged = await self._judge(exchange, checks, [(statement.choice, statement.claim) for statement in statements], said)
        return [s for s, judgement in zip(statements, judged, strict=True) if fails(judgement, self.options.fail_on)]

    async def _judge_refusals(self, exchange: Exchange, checks: Checks, choices: Sequence[Choice]) -> list[AnswerStatement]:
        """The failing statements in what `choices` refuse with."""
        question = await run_in_thread_if_large(exchange.original.size, question_of, exchange)
        statements = await run_in_thread_if_large(
            sum(len(choice.refusal) for choice in choices) * SENTENCES, refusals.read_refusals, choices, question
        )
        if not statements:
            return []
        said = "\n".join(choice.refusal[:MAX_SAMPLE_CHARS] for choice in choices)
        judged = await self._judge(exchange, checks, [(s.choice, s.claim) for s in statements], said, refusal=True)
        return [s for s, judgement in zip(statements, judged, strict=True) if fails(judgement, self.options.fail_on)]

    async def _judge_arguments(self, exchange: Exchange, answer: Answer, ground: Ground) -> list[tuple[Argument, Judgement]]:
        """Of every choice's tool calls, where the policy asks for it."""
        if self.options.tool_arguments == "skip":
            return []
        arguments = [a for choice in answer.choices for a in arguments_of(choice, exchange.retrieval_tools)]
        there = await run_in_thread_if_large(ground.base.chars * len(arguments), literals, arguments, ground.base.evidence)
        missing = [i for i, judgement in enumerate(there) if judgement is None]
        answers = await self._ask(ground, [arguments[i].claim for i in missing], "")
        judged = filled(there, dict(zip(missing, answers, strict=True)))
        return [(argument, judgement) for argument, judgement in zip(arguments, judged, strict=True) if judgement is not None]

    # ---- acting ----

    def _acts(self, checks: Checks, choice: int) -> bool:
        """Whether a choice fails, and by so much that the policy wants it retried, replaced or blocked."""
        judgements, least = of_choice(checks.found, choice), self.options.min_faithfulness
        below = (share := faithfulness(judgements)) is None or share < least or least == 1.0 or self.options.action == "redact"
        return below and any(fails(judgement, self.options.fail_on) for judgement in judgements)

    def _settled(self, exchange: Exchange, checks: Checks) -> Answer:
        """Ask again where the answer fails and there are tries left; else the best of the answers, as the stages before have left it."""
        answer, present = exchange.answer or Answer(()), len(exchange.attempts) - 1
        if present < 0:
            return answer
        judgements, failing = [one.judgement for one in checks.found], failing_of(checks.found, self.options.fail_on)
        checks.attempts[present] = JudgedAttempt(tuple(checks.found), rank(answer, judgements, failing))
        acting = [choice for choice in answer.choices if self._acts(checks, choice.index)]
        if acting and exchange.attempts.possible and present < self.options.retries and not any(c.tool_calls for c in answer.choices):
            wrong = [j for j in of_choice(checks.found, acting[0].index) if fails(j, self.options.fail_on)]
            exchange.retry = asked_again(exchange.attempts[0].prompt.messages, acting[0].text or acting[0].refusal, wrong)
            self.ports.counters.count("claims.retried_count")
            return answer
        best = max(checks.attempts, key=lambda i: (checks.attempts[i].rank, i))
        if best != present:
            exchange.deliver = best
            checks.found = list(checks.attempts[best].found)
            self._tell(exchange, checks)
        return answer if best == present else exchange.attempts[best].answer
