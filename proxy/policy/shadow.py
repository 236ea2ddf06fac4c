"""Shadow mode (``enforce: false``): a policy judges an exchange and records what it would have done, and nothing of the exchange changes.

In: an exchange that was forwarded as the client sent it, with the answer as it left. Out: verdicts that say what each stage would have
done (`Verdict.would`). Everything runs when the answer has left, off the client's path: no byte changes, none comes later, and nothing is
refused, asked or asked again. The stages see an exchange of their own, with each other's edits in it; a block is recorded, and the stages
behind it still judge. The client's own passages (``groundwire.context``), which reach the model by a stage alone, do so here, too
(`Stage.hand_over`): else the answers that are judged would be others than those of the policy enforced.

What they learn and keep (quarantine, clashes, failures, tool choices, compactions) is kept for another client, the real one's name
with `proxy.config.settings.SHADOW` behind it, so that it changes nothing when the policy is enforced one day. Their counters, which count
what was done, count nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from proxy.context.passages import RETRIEVAL_TOOLS
from proxy.errors import ProxyError
from proxy.exchange import Exchange, Verdict, Would
from proxy.own_calls import Hook
from proxy.pipeline import Pipeline, never
from proxy.ports.stage import Stage

log = logging.getLogger("groundwire.shadow")


class Uncounted:
    """Implements `proxy.ports.Counters`: what was not done is not counted."""

    def count(self, name: str, value: int = 1) -> None:
        """Nothing."""


class ShadowPipeline(Pipeline):
    """The stages of a policy that is not enforced."""

    enforces = False

    def __init__(
        self, stages: Sequence[Stage], retrieval_tools: Sequence[str] = RETRIEVAL_TOOLS, *, reading_since: Callable[[float], bool] = never
    ) -> None:
        super().__init__(stages, retrieval_tools, reading_since=reading_since)
        self._judging_stages: set[str] = set()
        """Exchanges whose requests were judged, until they are released."""

    def judges_answers(self, exchange: Exchange) -> bool:
        """The verdict is known when the answer has left, whatever the stages look at."""
        return self.ran(exchange)

    def judges_sentences(self, exchange: Exchange) -> bool:
        """No sentence waits."""
        return False

    async def begin(self, exchange: Exchange) -> None:
        """Nothing is judged yet: it is forwarded as it came, with the client's own passages."""
        for stage in self._handing_over:
            if not stage.is_left_out(exchange):
                with suppress(ProxyError):  # a failure is noted, and refuses nothing
                    await super()._run(stage, stage.hand_over, "request", exchange)

    async def answer(self, exchange: Exchange) -> None:
        """Judge the request, then the answer. Never raises a `ProxyError`."""
        await self.conclude(exchange)
        await super().answer(exchange)

    async def conclude(self, exchange: Exchange) -> None:
        """Judge the request, unless that was done: an upstream's failure leaves no answer to judge."""
        if exchange.id in self._judging_stages:
            return
        self._judging_stages.add(exchange.id)
        answer, upstream_answer, sent = exchange.answer, exchange.upstream_answer, exchange.messages
        exchange.answer = exchange.upstream_answer = None
        exchange.messages = exchange.original.messages
        try:
            await super().begin(exchange)
        except Exception as error:  # it has all left: only the record can tell
            log.error("%s: shadow mode failed", exchange.id, exc_info=error)
            exchange.verdicts.append(Verdict("server", "error", code="check_failed", detail={"exception": type(error).__name__}))
        if sent is not exchange.original.messages:
            would, exchange.messages = exchange.messages, sent
            await self._run_all([(stage, hook) for stage, hook in self._request if stage.measures], "request", exchange)
            exchange.messages = would
        exchange.answer, exchange.upstream_answer = answer, upstream_answer
        exchange.facts.context = exchange.facts.context_before  # what was sent is what came, with the passages

    def release(self, exchange: Exchange) -> None:
        """The exchange has ended."""
        super().release(exchange)
        self._judging_stages.discard(exchange.id)

    async def _run(self, stage: Stage, hook: Hook, phase: str, exchange: Exchange) -> Verdict | None:
        """Run a hook; what it refuses or does is noted in its verdict, and undone where it would end the exchange."""
        before, known = _state(exchange), len(exchange.verdicts)
        would: Would = ""
        try:
            await super()._run(stage, hook, phase, exchange)
        except ProxyError:
            would = "block"
        found = exchange.verdicts[known:]
        if any(verdict.code == "retry_impossible" for verdict in found):
            found, would = [verdict for verdict in found if verdict.code != "retry_impossible"], "retry"
        if phase == "request" and exchange.answer is not None:
            exchange.answer, would = None, "ask" if any(_is_question(stage, verdict.code) for verdict in found) else "answer"
        if not would and any(new is not old for new, old in zip(_state(exchange), before, strict=True)):
            would = "edit"
        if would and not found:
            found = [Verdict(stage.name, "unchecked")]
        exchange.verdicts[known:] = [*found[:-1], _shadow_verdict(found[-1], would)] if found else []
        return exchange.verdicts[-1] if found else None


def _state(exchange: Exchange) -> tuple[object, ...]:
    """What a stage may replace."""
    return exchange.messages, exchange.tools, exchange.params, exchange.passages, exchange.answer


def _is_question(stage: Stage, code: str) -> bool:
    """Whether a verdict with this code goes with a question to the user."""
    return code.endswith("_asked") or any(action.kind == "ask" and action.code == code for action in stage.actions(stage.options))


def _shadow_verdict(verdict: Verdict, would: Would) -> Verdict:
    """The verdict of a stage that was not obeyed: nothing was blocked."""
    return replace(verdict, outcome="warn" if verdict.outcome == "block" else verdict.outcome, would=would)
