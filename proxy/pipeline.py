"""Runs a policy's stages over an exchange: order, timing, time budgets, errors. The only place that catches a stage's exceptions.

A stage that fails or takes too long leaves a verdict ``error`` (never a pass), the exchange as it was before the stage, and the
rest to ``on_error``: ``open`` goes on, ``closed`` ends the request. A verdict ``block`` ends it too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from proxy.errors import PolicyBlocked, ProxyError
from proxy.exchange import Exchange, Sentence, Verdict
from proxy.passages import RETRIEVAL_TOOLS, find_passages
from proxy.stage import SentenceStage, Stage
from proxy.text import replaced

log = logging.getLogger("groundwire.pipeline")

Hook = Callable[[Exchange], Awaitable[Verdict | None]]


class Pipeline:
    """The stages of one policy, ready to run."""

    def __init__(self, stages: Sequence[Stage], retrieval_tools: Sequence[str] = RETRIEVAL_TOOLS) -> None:
        self.stages = tuple(stages)
        self._retrieval_tools = tuple(retrieval_tools)
        self._request = [(s, s.on_request) for s in stages if _overrides(s, "on_request")]
        self._forward = [(s, s.on_forward) for s in stages if _overrides(s, "on_forward")]
        self._answer = [(s, s.on_answer) for s in stages if _overrides(s, "on_answer")]
        self._sentence = [s for s in stages if isinstance(s, SentenceStage)]

    def judges_answers(self, exchange: Exchange) -> bool:
        """Whether a stage will look at the whole answer."""
        if not exchange.skip:
            return bool(self._answer)
        return any(not self._skipped(stage, exchange) for stage, _ in self._answer)

    def judges_sentences(self, exchange: Exchange) -> bool:
        """Whether a stage will look at single sentences."""
        if not exchange.skip:
            return bool(self._sentence)
        return any(not self._skipped(stage, exchange) for stage in self._sentence)

    def ran(self, exchange: Exchange) -> bool:
        """Whether anything of the policy applied: false when it has no stages, or every one was left out."""
        if not exchange.skip:
            return bool(self.stages)
        return any(not self._skipped(stage, exchange) for stage in self.stages)

    def verdict(self, exchange: Exchange) -> str:
        """The verdict so far, as headers, bodies and records say it: ``skipped`` where nothing applied and nothing was found."""
        return exchange.outcome if exchange.verdicts or self.ran(exchange) else "skipped"

    async def request(self, exchange: Exchange) -> None:
        """Before the model. Raises `ProxyError`."""
        if any(stage.reads_passages and not self._skipped(stage, exchange) for stage in self.stages):
            exchange.evidence += find_passages(exchange.original.messages, self._retrieval_tools)
        if self._request:
            await self._run_all(self._request, "request", exchange)
        if self._forward:
            await self._run_all(self._forward, "forward", exchange)

    async def answer(self, exchange: Exchange) -> None:
        """After the model. Raises `PolicyBlocked`."""
        await self._run_all(self._answer, "answer", exchange)

    async def sentence(self, exchange: Exchange, sentence: Sentence) -> str:
        """What goes out instead of `sentence` (mostly itself). Raises `PolicyBlocked`."""
        for stage in self._sentence:
            if self._skipped(stage, exchange):
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

    async def _run_all(self, hooks: Sequence[tuple[Stage, Hook]], phase: str, exchange: Exchange) -> None:
        for stage, hook in hooks:
            if not self._skipped(stage, exchange):
                await self._run(stage, hook, phase, exchange)

    async def _run(self, stage: Stage, hook: Hook, phase: str, exchange: Exchange) -> Verdict | None:
        before = (exchange.messages, exchange.tools, exchange.params, exchange.answer)
        started = time.perf_counter()
        verdict: Verdict | None
        try:
            async with asyncio.timeout(stage.options.timeout_ms / 1000):
                verdict = await hook(exchange)
        except ProxyError as error:
            verdict = Verdict(stage.name, "block", code=error.param or error.code, message=error.message)
            exchange.verdicts.append(verdict)
            raise
        except Exception as error:  # a stage's bug or a missed deadline is a finding, never a crash
            exchange.messages, exchange.tools, exchange.params, exchange.answer = before
            verdict = self._failure(stage, phase, exchange, error)
        finally:
            key = f"{stage.name}.{phase}"
            exchange.timings[key] = exchange.timings.get(key, 0.0) + (time.perf_counter() - started) * 1000
        if verdict is not None:
            if phase != "sentence" or verdict.outcome != "pass" or verdict.replacement is not None:
                exchange.verdicts.append(verdict)
            if verdict.outcome == "block":
                raise PolicyBlocked(verdict.message or f"the policy's stage {stage.name} refused this", param=verdict.code or stage.name)
            if verdict.outcome == "error" and stage.options.on_error == "closed":
                message = f"the check {stage.name} could not run, and the policy refuses what it cannot check"
                raise PolicyBlocked(message, param=verdict.code or "check_failed")
        return verdict

    @staticmethod
    def _failure(stage: Stage, phase: str, exchange: Exchange, error: Exception) -> Verdict:
        if isinstance(error, TimeoutError):
            log.warning("%s: stage %s (%s) took longer than %g ms", exchange.id, stage.name, phase, stage.options.timeout_ms)
            return Verdict(stage.name, "error", code="check_timeout", detail={"timeout_ms": stage.options.timeout_ms})
        log.error("%s: stage %s (%s) failed", exchange.id, stage.name, phase, exc_info=error)
        return Verdict(stage.name, "error", code="check_failed", detail={"exception": type(error).__name__})

    @staticmethod
    def _skipped(stage: Stage, exchange: Exchange) -> bool:
        return stage.name in exchange.skip or "all" in exchange.skip


def _overrides(stage: Stage, hook: str) -> bool:
    return getattr(type(stage), hook) is not getattr(Stage, hook)
