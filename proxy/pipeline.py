"""Runs a policy's stages over an exchange: order, timing, time budgets, errors. The only place that catches a stage's exceptions.

A stage that fails or takes too long leaves a verdict ``error`` (never a pass), the exchange as it was before the stage, and the
rest to ``on_error``: ``open`` goes on, ``closed`` ends the request. A verdict ``block`` ends it too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from proxy.context.conversation import unread_size
from proxy.context.passages import RETRIEVAL_TOOLS, absent_passages, passages_of
from proxy.errors import INTERRUPTIONS, Overloaded, PolicyBlocked, ProxyError, StoreUnavailable
from proxy.exchange import CHECKS_CPU_S, QUIET, Evidence, Exchange, HookMark, Request, Sentence, Verdict, tool_name
from proxy.exchange.verdicts import NOT_IN_PROMPT, UNCHECKED
from proxy.language.text import replaced
from proxy.offloop import LARGE, OverBudget, run_in_thread_if_large
from proxy.own_calls import Hook, OwnCalls
from proxy.ports.deadline import done_within
from proxy.ports.stage import SentenceStage, Stage, can_answer_tools, overrides

log = logging.getLogger("groundwire.pipeline")

RETRY_AFTER_S = "1"
"""Whoever comes again after a second finds a store, or a model, that had a hiccup."""
_LATE = frozenset(("check_timeout", "check_over_budget"))
"""Codes of checks that ran out of time: the same request may have more of it later."""
_HEAD_START_S = 0.003
"""What the upstream's request gets of the event loop before the stages that only tell."""


def never(_: float) -> bool:
    """Models are read before they are needed."""
    return False


class _Background:
    """The hooks that run while the model is asked; they let its request leave first."""

    def __init__(self, run: Callable[[], Awaitable[None]]) -> None:
        self._run, self._awaited = run, asyncio.Event()
        self.task = asyncio.create_task(self._later())

    async def _later(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEAD_START_S):
                await self._awaited.wait()
        await self._run()

    async def done(self) -> None:
        """They have all run, or failed."""
        self._awaited.set()
        await asyncio.wait((self.task,))


class Pipeline:
    """The stages of one policy, ready to run."""

    enforces = True
    """Whether what the stages decide is done."""

    def __init__(
        self, stages: Sequence[Stage], retrieval_tools: Sequence[str] = RETRIEVAL_TOOLS, *, reading_since: Callable[[float], bool] = never
    ) -> None:
        """`reading_since` says whether a model or a vocabulary was being read at some time after a moment (`time.perf_counter`): where
        they are read at their first use, a check that could not wait for one is unchecked and no error.
        """
        self.stages = tuple(stages)
        self._retrieval_tools, self._reading_since = tuple(retrieval_tools), reading_since
        requests = [(s, s.on_request) for s in stages if overrides(s, "on_request")]
        self._beside = [(s, hook) for s, hook in requests if self.enforces and s.read_only and s.options.on_error == "open"]
        self._request = [one for one in requests if one not in self._beside]
        self._background: dict[str, _Background] = {}
        """By exchange."""
        self._forward = sorted(((s, s.on_forward) for s in stages if overrides(s, "on_forward")), key=lambda one: one[0].measures)
        judging = answer_order(stages)
        self._answer = [(s, s.on_answer) for s in judging if overrides(s, "on_answer") and s.judges_answers and _has_findings(s, stages)]
        self._done = [(s, s.on_done) for s in stages if overrides(s, "on_done")]
        self._failed = [(s, s.on_failed) for s in stages if overrides(s, "on_failed")]
        self.own_calls = OwnCalls(stages if self.enforces else (), self._run)
        self._sentence = [s for s in judging if isinstance(s, SentenceStage) and s.judges_sentences]
        self._handing_over = [s for s in stages if overrides(s, "hand_over")]
        self._place = {stage.name: i for i, stage in enumerate(self.stages)}
        self._release = [s for s in stages if overrides(s, "release")]
        self._remembering = [s for s in stages if overrides(s, "needs_run_identity")]

    def judges_answers(self, exchange: Exchange) -> bool:
        """Whether a stage will look at the whole answer."""
        if not exchange.skip:
            return bool(self._answer)
        return any(not stage.is_left_out(exchange) for stage, _ in self._answer)

    def judges_sentences(self, exchange: Exchange) -> bool:
        """Whether a stage will look at single sentences, and every one that does can do so in this exchange."""
        stages = [stage for stage in self._sentence if not stage.is_left_out(exchange)]
        return bool(stages) and all(stage.by_sentence(exchange) for stage in stages)

    def needs_run_identity(self, request: Request) -> bool:
        """Whether a stage keeps something of the run of such a request, or goes by what it kept."""
        return bool(self._remembering) and any(stage.needs_run_identity(request) for stage in self._remembering)

    def closed(self, exchange: Exchange) -> bool:
        """Whether a stage that looks at answers refuses what it cannot check."""
        stages = (*(stage for stage, _ in self._answer), *self._sentence)
        return any(stage.options.on_error == "closed" and not stage.is_left_out(exchange) for stage in stages)

    def learns(self, exchange: Exchange) -> bool:
        """Whether a stage wants to know what came of it, now that it is over."""
        return any(not stage.is_left_out(exchange) for stage, _ in self._learning(exchange))

    def _learning(self, exchange: Exchange) -> Sequence[tuple[Stage, Callable[[Exchange], Awaitable[None]]]]:
        if exchange.unanswered is not None:
            return self._failed
        return self._done if exchange.answer is not None else ()

    def ran(self, exchange: Exchange) -> bool:
        """Whether anything of the policy applied: false when it has no stages, or every one was left out."""
        if not exchange.skip:
            return bool(self.stages)
        return any(not stage.is_left_out(exchange) for stage in self.stages)

    def verdict(self, exchange: Exchange) -> str:
        """The verdict so far, as headers, bodies and records say it: ``skipped`` where nothing applied and nothing was found."""
        return exchange.outcome if exchange.verdicts or self.ran(exchange) else "skipped"

    async def request(self, exchange: Exchange) -> None:
        """Before the model: all that `begin` begins. Raises `ProxyError`."""
        await self.begin(exchange)
        await self.wait_for_background(exchange)

    async def begin(self, exchange: Exchange) -> None:
        """Before the model. A stage that sets `exchange.answer` answers in its stead: no stage behind it runs. What only tells of the
        request goes on while the model is asked, until `wait_for_background`. Raises `ProxyError`.
        """
        exchange.retrieval_tools = self._retrieval_tools
        if any(stage.reads_passages and not stage.is_left_out(exchange) for stage in self.stages):
            found = await run_in_thread_if_large(unread_size(exchange), passages_of, exchange)
            exchange.evidence = (*exchange.evidence, *found)
            exchange.passages = (*exchange.original.passages, *found)
        if self._request:
            await self._run_all(self._request, "request", exchange)
        if (own := self.own_calls.offered(exchange)) and not can_answer_tools(exchange):
            exchange.tools = [tool for tool in exchange.tools if tool_name(tool) not in own]
        if exchange.answer is None:
            if self._beside:
                self._background[exchange.id] = _Background(partial(self._run_all, self._beside, "request", exchange, whole=True))
            await self.forward(exchange)

    async def left_behind(self, exchange: Exchange) -> Verdict | None:
        """What to tell where the client's passages are not in the prompt: no stage hands them over, or the client left that one out. Where
        nothing of the policy applied, ``skipped`` tells enough.
        """
        passages = exchange.original.passages
        if not passages or exchange.answer is not None or not self.ran(exchange):
            return None
        if not all(stage.is_left_out(exchange) for stage in self._handing_over):
            return None
        absent = await run_in_thread_if_large(unread_size(exchange), absent_passages, passages, exchange.messages)
        return Verdict("server", "unchecked", code=NOT_IN_PROMPT, detail={"passages": len(absent)}) if absent else None

    def is_background_running(self, exchange: Exchange) -> bool:
        """Whether something of what `begin` left running still runs."""
        background = self._background.get(exchange.id)
        return background is not None and not background.task.done()

    def has_background(self, exchange: Exchange) -> bool:
        """Whether `begin` left something running that `wait_for_background` has still to wait for."""
        return exchange.id in self._background

    async def wait_for_background(self, exchange: Exchange) -> None:
        """Wait for what `begin` left running: what it found is in the headers, and before the answer's checks. Raises `ProxyError`."""
        background = self._background.get(exchange.id)
        if background is None:
            return
        await background.done()
        self._background.pop(exchange.id, None)  # two may have waited
        place, last = self._place, len(self._place)
        exchange.verdicts.sort(key=lambda verdict: place.get(verdict.stage, last))
        background.task.result()

    async def forward(self, exchange: Exchange) -> None:
        """Before each call of the upstream, on what is sent. Raises `ProxyError`."""
        if self._forward:
            await self._run_all(self._forward, "forward", exchange)

    async def answer(self, exchange: Exchange) -> None:
        """After the model. A stage that asks for another answer (`exchange.retry`) is the last to see this one. Raises `PolicyBlocked`."""
        if exchange.answer is not None and exchange.answer.sources:
            exchange.evidence = (*exchange.evidence, *(Evidence(text, source) for text, source in exchange.answer.sources))
        for stage, hook in self._answer:
            if not stage.is_left_out(exchange):
                await self._run(stage, hook, "answer", exchange)
            if exchange.retry is not None:
                return

    async def done(self, exchange: Exchange) -> None:
        """After the answer, or the upstream's failure, has left. Never raises: what a stage fails to learn is logged."""
        for stage, hook in self._learning(exchange):
            if stage.is_left_out(exchange):
                continue
            try:
                await done_within(stage.options.timeout_ms / 1000, None, hook(exchange))
            except StoreUnavailable as error:
                log.warning("%s: stage %s (done) learns nothing: %s", exchange.id, stage.name, error)
            except Exception as error:  # nobody waits for it any more
                log.error("%s: stage %s (done) failed", exchange.id, stage.name, exc_info=error)

    async def conclude(self, exchange: Exchange) -> None:
        """Everything has left: judge what was not judged on the way. Never raises a `ProxyError`."""
        with suppress(ProxyError):
            await self.wait_for_background(exchange)

    def release(self, exchange: Exchange) -> None:
        """The exchange has ended: its stages let go of it. Never raises."""
        self.abandon(exchange)
        for stage in self._release:
            try:
                stage.release(exchange)
            except Exception as error:  # nobody can be told any more
                log.error("%s: stage %s (release) failed", exchange.id, stage.name, exc_info=error)

    def abandon(self, exchange: Exchange) -> None:
        """Nobody waits for what still runs beside it."""
        background = self._background.pop(exchange.id, None)
        if background is not None:
            background.task.cancel()

    async def sentence(self, exchange: Exchange, sentence: Sentence) -> str:
        """What goes out instead of `sentence` (mostly itself). Raises `PolicyBlocked`."""
        exchange.work.limit_s += CHECKS_CPU_S * len(sentence.text) / LARGE
        for stage in self._sentence:
            if stage.is_left_out(exchange):
                continue
            judged = sentence  # each stage sees what the one before it left

            async def hook(e: Exchange, stage: SentenceStage = stage, judged: Sentence = judged) -> Verdict | None:
                return await stage.on_sentence(e, judged)

            verdict = await self._run(stage, hook, "sentence", exchange)
            if verdict is not None and verdict.replacement is not None:
                sentence = replace(sentence, text=replaced(sentence.text, verdict.replacement))
                if not sentence.text:
                    break
        return sentence.text

    async def _run_all(self, hooks: Sequence[tuple[Stage, Hook]], phase: str, exchange: Exchange, *, whole: bool = False) -> None:
        """One after the other; before the model up to one that answers in its stead, unless the `whole` runs beside the model."""
        for stage, hook in hooks:
            if not stage.is_left_out(exchange):
                await self._run(stage, hook, phase, exchange)
            if phase == "request" and exchange.answer is not None and not whole:
                return

    async def _run(self, stage: Stage, hook: Hook, phase: str, exchange: Exchange) -> Verdict | None:
        beside = phase == "tool" and stage.results_from_outside  # of other calls, whose results are told meanwhile
        before, started = exchange.begin(beside=beside), time.perf_counter()
        verdict: Verdict | None = None
        try:
            if phase == "sentence" and exchange.work.over():
                raise OverBudget
            verdict = await done_within(stage.options.timeout_ms / 1000, stage.allowance(exchange), hook(exchange))
            if verdict is not None and verdict.outcome == "error":
                verdict = self._excuse_loading(stage, verdict, started)
            if verdict is not None and phase in ("sentence", "answer") and verdict.scope == "request":
                verdict = replace(verdict, scope="answer")
            if phase == "answer":
                exchange.attempts.settle(exchange, stage.name, before.findings)
        except ProxyError as error:
            verdict = Verdict(stage.name, "block", code=_code(error), message=error.message)
            exchange.verdicts.append(verdict)
            raise
        except INTERRUPTIONS:
            raise
        except BaseException as error:  # a stage's bug or a missed deadline is a finding, never a crash
            alone = not (beside or phase == "sentence" or stage.read_only)
            exchange.undo(before, prompt=alone)  # another's hook may change it meanwhile
            verdict = self._excuse_loading(stage, self._failure(stage, phase, exchange, error), started)
        finally:
            exchange.running.remove(before)
            key, ended = f"{stage.name}.{phase}", time.perf_counter()
            exchange.timings[key] = exchange.timings.get(key, 0.0) + (ended - started) * 1000
            if exchange.marks is not None:
                exchange.marks.append(HookMark(stage.name, phase, started, ended, verdict))
        if exchange.retry is not None and not exchange.attempts.possible:
            exchange.retry = None
            exchange.verdicts.append(Verdict(stage.name, "warn", code="retry_impossible", detail={"attempts": len(exchange.attempts)}))
        if verdict is not None:
            if phase != "sentence" or _is_news(verdict, exchange):
                exchange.verdicts.append(verdict)
            if verdict.outcome == "block":
                raise PolicyBlocked(verdict.message or f"the policy's stage {stage.name} refused this", param=verdict.code or stage.name)
            if verdict.outcome == "error" and stage.options.on_error == "closed":
                message = f"the check {stage.name} could not run, and the policy refuses what it cannot check"
                if verdict.code in stage.retryable or verdict.code in _LATE:
                    raise Overloaded(f"{message}; try again", param=verdict.code, headers=(("retry-after", RETRY_AFTER_S),))
                raise PolicyBlocked(message, param=verdict.code or "check_failed")
        return verdict

    def _excuse_loading(self, stage: Stage, verdict: Verdict, started: float) -> Verdict:
        """An error of a hook that has waited for the first reading of a model or a vocabulary: nothing was checked, nothing is wrong."""
        waits = stage.embeds or stage.verifies or verdict.code in _LATE
        if stage.options.on_error == "closed" or not waits or not self._reading_since(started):
            return verdict
        detail = {**verdict.detail, "reason": "a model is being read", "was": verdict.code}
        return replace(verdict, outcome="unchecked", code=f"{UNCHECKED}model_loading", detail=detail)

    @staticmethod
    def _failure(stage: Stage, phase: str, exchange: Exchange, error: BaseException) -> Verdict:
        try:
            stage.on_hook_failed(exchange, phase)
        except Exception as again:  # it has failed already
            log.error("%s: stage %s (%s) failed to say so", exchange.id, stage.name, phase, exc_info=again)
        if isinstance(error, OverBudget):
            detail = {"cpu_ms": stage.options.cpu_ms, "spent_cpu_ms": round(exchange.work.spent_s * 1000)}
            log.warning("%s: stage %s (%s) took more than its processor time: %s", exchange.id, stage.name, phase, detail)
            if stage.options.on_error == "open" and phase in ("sentence", "answer"):
                return Verdict(stage.name, "unchecked", code=f"{UNCHECKED}over_budget", detail=detail)
            return Verdict(stage.name, "error", code="check_over_budget", detail=detail)
        if isinstance(error, TimeoutError):
            log.warning("%s: stage %s (%s) took longer than %g ms", exchange.id, stage.name, phase, stage.options.timeout_ms)
            return Verdict(stage.name, "error", code="check_timeout", detail={"timeout_ms": stage.options.timeout_ms})
        log.error("%s: stage %s (%s) failed", exchange.id, stage.name, phase, exc_info=error)
        return Verdict(stage.name, "error", code="check_failed", detail={"exception": type(error).__name__})


def answer_order(stages: Sequence[Stage]) -> list[Stage]:
    """`stages` in the order in which they judge an answer: each after those of its `answers_after`, else as they are listed.

    Raises `ValueError` when stages wait for each other.
    """
    waiting, done = list(stages), list[Stage]()
    while waiting:
        names = {stage.name for stage in waiting}
        ready = next((stage for stage in waiting if not names.intersection(stage.answers_after)), None)
        if ready is None:
            raise ValueError(f"answers_after goes round in a circle: {', '.join(sorted(names))}")
        waiting.remove(ready)
        done.append(ready)
    return done


def _code(error: ProxyError) -> str:
    """A refusal's sub-code; of any other error its own, since its ``param`` names a field."""
    return (error.param if isinstance(error, PolicyBlocked) else "") or error.code


def _is_news(verdict: Verdict, exchange: Exchange) -> bool:
    """Whether a sentence's verdict is kept: of those that hold, the first of each stage."""
    if verdict.outcome not in QUIET or verdict.replacement is not None:
        return True
    return not any(other.stage == verdict.stage and other.outcome == verdict.outcome for other in exchange.verdicts)


def _has_findings(stage: Stage, stages: Sequence[Stage]) -> bool:
    """Whether what its answer hook works on can be there."""
    return not stage.answers_with or any(other.name in stage.answers_with for other in stages)
