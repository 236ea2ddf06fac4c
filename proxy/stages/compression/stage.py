"""Compression: a prompt that nears the model's window is brought back to a target, and stays the same until it nears it again.

Comes after budget, whose count and window it goes by, and after history. What an earlier request decided is repeated first; only a
prompt that still reaches `at` is compressed: by one strategy after the other until it is at the target, or by all of them and up to
the last block from `aggressive_at` on, and where it would not fit otherwise. A strategy that frees nothing is taken back. A component
that takes more than the budget allots to it is brought back to that, whatever the window (`allocations`).

The verdict is the warning ``compression_failed``, with what would help, where the prompt stays as full as one that is to be compressed; a
target that is missed below that is for the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from proxy.context.archive import READ_ARCHIVE, answer_from_archive, offer_archive
from proxy.context.compaction.parts import CompactedPrompt, prompt_use, recall, send, store, token_counter
from proxy.context.lineage import turn_hashes
from proxy.context.summaries.summariser import Summariser
from proxy.errors import StoreUnavailable
from proxy.exchange import CompressionResult as Report
from proxy.exchange import ContextUse, Exchange, Facts, Request, ToolCall, Verdict, VerdictView
from proxy.exchange.facts import reserve_limit
from proxy.language.amounts import NONE, many
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.panels import Bucket, Lines, Panel, RecordedVerdict, StagePanel, make_panel
from proxy.ports.stage import CounterFamily, Stage, StageHeader
from proxy.stages.compression.allocations import AllocationFit, CompressionGoal, exceeded_allocations, fit, goal_of
from proxy.stages.compression.attempt import KEPT, NOTHING, CompressionRun, message_ages
from proxy.stages.compression.options import CompressionOptions, CompressionThresholds, advice, thresholds, turns_to_pay


class CompressionPanel(StagePanel):
    """Prompts that were compressed, and their tokens."""

    name = "compression"
    title = "Compressed prompts"
    compressions: int = 0
    compression_tokens_before: int = 0
    compression_tokens_after: int = 0

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        if facts.compression is not None and facts.compression.strategies:
            self.compressions += 1
            self.compression_tokens_before += facts.compression.before_tokens
            self.compression_tokens_after += facts.compression.after_tokens

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Tokens before to after."""
        done = whole.of(cls)
        before, after = done.compression_tokens_before, done.compression_tokens_after
        freed = f"{many(done.compressions, 'prompt')} compressed, {before - after:,} tokens taken out"
        detail = (freed if done.compressions else "",)
        lines: Lines = {"compressed": lambda b: float(b.of(cls).compressions)}
        hint = "" if done.compressions else "The stage compression begins where a prompt fills 80% of its window."
        figure = f"{before / after:.1f}×" if after else NONE
        return make_panel(cls.name, cls.title, figure, "smaller, where compressed", detail, buckets, lines, hint=hint)


COUNTERS = {
    "context.compression_count": "prompts that were compressed",
    "context.compression_tokens_before_count": "their tokens before",
    "context.compression_tokens_after_count": "their tokens after",
    "context.compression_failures": "prompts that stayed above the target",
    "context.allocation_compressed_count": "prompts of which a component was brought back to its allocation",
    **{f"context.compression_{name}_count": f"compressions in which {name} did something" for name in ("trim", "summarize", "archive")},
}


_RULES_TOKENS = 400
"""What the rules of the stage `faithful` take at most, in any language, also where it is an estimate: 250 in o200k."""
_STAYS = ("system_instructions", "current_query")
"""Components that no compression shortens."""
BELOW, WAITS = "below-threshold", "waits-until-it-pays"
"""Why a prompt was not compressed."""
SMALL_BYTES = 16_384
"""A request below this is far from filling a window, so that nothing needs to be noted of its run yet."""


def _header(facts: Facts, verdicts: Sequence[VerdictView]) -> str | None:
    done = facts.compression
    if done is None:
        return None
    if not done.strategies:
        return f"none;{done.reason}"
    return f"{'+'.join(done.strategies)};{done.before_tokens}->{done.after_tokens};{done.before_tokens / max(done.after_tokens, 1):.1f}x"


class Compression(Stage[CompressionOptions]):
    """Brings a prompt that nears the window back to a target, losing nothing, and repeats what it decided byte for byte."""

    name = "compression"
    checks = False
    Options = CompressionOptions
    requires = ("token_count",)
    follows = ("history",)
    changes = ("messages", "tools")
    shortens_history = True
    counters = COUNTERS
    families = (
        CounterFamily(
            "groundwire_compression_strategies",
            "Compressions by what did something",
            "strategy",
            r"context\.compression_(trim|summarize|archive)_count",
        ),
    )
    headers = (
        StageHeader("compression", "strategies (stored: what an earlier request decided);before->after;ratio, or none;REASON", _header),
    )
    panel = CompressionPanel
    reports = ("compression_failed",)
    answers = (READ_ARCHIVE,)

    def __init__(self, options: CompressionOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._summariser = Summariser(ports.chat, options.summariser)

    @classmethod
    def asks(cls, options: CompressionOptions) -> Mapping[str, str]:
        """The summariser's upstream."""
        return {"summariser.upstream": options.summariser.upstream} if options.summariser else {}

    def needs_run_identity(self, request: Request) -> bool:
        """When its messages came, and what became of them."""
        return request.size >= SMALL_BYTES

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Repeat what was decided; compress where that is not enough. A prompt below the target needs neither."""
        before = exchange.facts.context_before
        if before is None or before.window_tokens is None:
            exchange.facts.compression = Report(reason="skipped")
            return Verdict(self.name, "unchecked", detail={"reason": "skipped", "why": "the model's window is not known"})
        limits = await self._limits(exchange, before)
        options, allocations = self.options, exchange.facts.allocations or {}
        untouched = exchange.messages is exchange.original.messages
        if before.used_tokens < limits.target and untouched and not allocations:
            exchange.facts.compression = Report(reason=BELOW)
            return None
        fitted = await fit(exchange, self.ports, allocations) if allocations else AllocationFit()
        known, ages = await asyncio.gather(recall(exchange, self.ports), self._ages(exchange))
        given = exchange.original
        same = not known.length and exchange.messages is given.messages and exchange.tools is given.tools
        use = before if same else await prompt_use(exchange, self.ports, known.parts)
        over = exceeded_allocations(use, allocations)
        waits = not over and self._waits(exchange, use, limits)
        if waits or (use.used_tokens < limits.compress and not over):
            await self._send(exchange, known, use)
            return self._unchanged(exchange, known, use, fitted, WAITS if waits else BELOW)
        most = limits.target if use.used_tokens >= limits.compress else limits.room
        goal = goal_of(over, use, allocations, most, options.target / options.at)
        return await self._compress(
            exchange, known, use, limits, ages, goal, AllocationFit(fitted.steps, (*fitted.names, *over), fitted.problem)
        )

    async def on_done(self, exchange: Exchange) -> None:
        """Note when the messages came of which nothing needed to be known yet: `trim` goes by their age."""
        before = exchange.facts.context_before
        if before is None or before.window_tokens is None or not self.needs_run_identity(exchange.original):
            return
        if before.used_tokens < (await self._limits(exchange, before)).target and not exchange.facts.allocations:
            await self._ages(exchange)

    async def _limits(self, exchange: Exchange, use: ContextUse) -> CompressionThresholds:
        options, window = self.options, use.window_tokens or 0
        reserve = (exchange.facts.output_reserve_tokens or 0) + await self._tokens_to_come(exchange)
        if reserve + sum(use.components.get(name, 0) for name in _STAYS) > window:  # no compression makes room for such an answer
            reserve = min(reserve, reserve_limit(window))
        return thresholds(window, reserve, options.at, options.aggressive_at, options.target)

    async def _tokens_to_come(self, exchange: Exchange) -> int:
        """What a stage behind this one puts into the prompt: passages that stand in no message yet, and rules for answers from passages."""
        if not exchange.passages:
            return 0
        given = [passage for passage in exchange.passages if passage.message_index is None]
        shown = [{"role": "user", "content": f"### Passage [Source: {passage.source}]\n{passage.content}"} for passage in given]
        return _RULES_TOKENS + await token_counter(exchange, self.ports)(shown)

    def _waits(self, exchange: Exchange, use: ContextUse, limits: CompressionThresholds) -> bool:
        """Whether a prompt that passes `at`, and still fits, is left alone, since its cut would not pay soon enough."""
        within = self.options.pays_within
        if within is None or not limits.compress <= use.used_tokens < min(limits.aggressive, limits.room + 1):
            return False
        turns = sum(1 for message in exchange.conversation if message.get("role") == "assistant")
        ratio = self.ports.tokens.model(exchange.model).rewrite_ratio
        return turns_to_pay(use.used_tokens, limits.target, ratio) > within * turns

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        """The prompt is as it was."""
        if hook == "request":
            exchange.facts.compression = Report(reason=KEPT)

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """Read the archive."""
        return await answer_from_archive(self.ports.scratchpad, exchange, call)

    def _unchanged(self, exchange: Exchange, known: CompactedPrompt, use: ContextUse, fitted: AllocationFit, reason: str) -> Verdict | None:
        """Nothing is folded: what was decided earlier is repeated, and what passed its allocation by itself was brought back to it."""
        before = exchange.facts.context_before or use
        strategies = (*(("stored",) if known.length else ()), *fitted.strategies)
        done = Report(strategies, before.used_tokens, use.used_tokens, fitted=fitted.names or UNSET)
        exchange.facts.compression = done if strategies else Report(reason=reason)
        problem = known.problem or fitted.problem
        if fitted.names:
            self.ports.counters.count("context.allocation_compressed_count")
        detail = ({"store": problem} if problem else {}) | ({"allocations": fitted.steps} if fitted.steps else {})
        return Verdict(self.name, "unchecked", detail=detail) if detail else None

    async def _compress(
        self,
        exchange: Exchange,
        known: CompactedPrompt,
        use: ContextUse,
        limits: CompressionThresholds,
        ages: Sequence[float | None],
        goal: CompressionGoal,
        fitted: AllocationFit,
    ) -> Verdict:
        attempt = CompressionRun(exchange, self.ports, self.options, self._summariser, ages, known.parts, use)
        hard = use.used_tokens >= limits.aggressive
        if not hard:
            await attempt.run(goal)
            hard = attempt.use.used_tokens > limits.room
        if hard:
            await attempt.run_hard(goal)
        done, after = known, attempt.use
        if attempt.parts is not known.parts:
            done = await store(exchange, self.ports, attempt.parts, known)
            after = attempt.use if done.parts is attempt.parts else await prompt_use(exchange, self.ports, done.parts)
        await self._send(exchange, done, after)
        self._report(exchange, known, attempt, use, after, fitted)
        detail = _detail(use, after, limits, attempt, hard=hard) | {"store": done.problem or known.problem or fitted.problem or "ok"}
        if fitted.names:
            detail["allocations"] = fitted.steps
            detail["history_target_tokens"] = goal.history
        return self._verdict(after, limits, detail, crossed=use.used_tokens >= limits.compress)

    async def _send(self, exchange: Exchange, done: CompactedPrompt, use: ContextUse) -> None:
        given = exchange.messages
        await send(exchange, done.parts)
        offer_archive(exchange)
        exchange.facts.context = use
        if exchange.messages is not given:
            left_out = len(exchange.conversation) - sum(not part.made for part in done.parts)
            exchange.changes.append({"stage": self.name, "what": "messages", "sent": len(exchange.messages), "left_out": left_out})

    def _report(
        self, exchange: Exchange, known: CompactedPrompt, attempt: CompressionRun, use: ContextUse, after: ContextUse, fitted: AllocationFit
    ) -> None:
        """The header's figures and the counters. The header tells of what the client sent, the counters of what this run freed."""
        folded = tuple(dict.fromkeys(step.strategy for step in attempt.steps if not step.reason))
        worked = tuple(dict.fromkeys((*fitted.strategies, *folded)))
        before = exchange.facts.context_before or use
        count = self.ports.counters.count
        share = round(use.share, 4)
        if not worked:
            reason = NOTHING if all(step.reason == NOTHING for step in attempt.steps) else KEPT
            exchange.facts.compression = _as_before(before, after, share) if known.length else Report(reason=reason, found_share=share)
            return
        if fitted.names:
            count("context.allocation_compressed_count")
        exchange.facts.compression = Report(worked, before.used_tokens, after.used_tokens, found_share=share, fitted=fitted.names or UNSET)
        if not folded:
            return
        count("context.compression_count")
        count("context.compression_tokens_before_count", use.used_tokens)
        count("context.compression_tokens_after_count", after.used_tokens)
        for strategy in folded:
            count(f"context.compression_{strategy}_count")

    def _verdict(self, after: ContextUse, limits: CompressionThresholds, detail: dict[str, Any], *, crossed: bool) -> Verdict:
        """What does not fit its allocation is the budget's to warn of."""
        score = round(min(after.share, 1.0), 4)
        if after.used_tokens <= limits.target or not crossed:
            return Verdict(self.name, "unchecked", score=score, detail=detail)
        detail |= {"advice": advice(after), "fits": after.used_tokens <= limits.room}
        if after.used_tokens < limits.compress:
            return Verdict(self.name, "unchecked", score=score, detail=detail)
        self.ports.counters.count("context.compression_failures")
        return Verdict(self.name, "warn", code="compression_failed", score=score, detail=detail)

    async def _ages(self, exchange: Exchange) -> list[float | None]:
        """Ages of the client's messages; asked for on every turn, so that a message's first turn is the one that counts."""
        messages, now = exchange.conversation, exchange.received_at
        if "trim" not in self.options.strategies:
            return [None] * len(messages)
        _, *digests = await run_in_thread_if_large(exchange.original.quick_size, turn_hashes, exchange)
        run = f"{exchange.route}\0{exchange.run_id}"
        try:
            seen = await self.ports.first_seen.times(run, digests, now, client=exchange.client)
        except StoreUnavailable:
            seen = None
        return await run_in_thread_if_large(len(messages), message_ages, exchange.original.message_hints, seen, len(messages), now)


def _as_before(before: ContextUse, after: ContextUse, found_share: float | UnsetType = UNSET) -> Report:
    return Report(("stored",), before.used_tokens, after.used_tokens, found_share=found_share)


def _detail(use: ContextUse, after: ContextUse, limits: CompressionThresholds, attempt: CompressionRun, *, hard: bool) -> dict[str, Any]:
    return {
        "aggressive": hard,
        "window_tokens": use.window_tokens,
        "target_tokens": limits.target,
        "before_tokens": use.used_tokens,
        "after_tokens": after.used_tokens,
        "freed_tokens": use.used_tokens - after.used_tokens,
        "ratio": round(use.used_tokens / max(after.used_tokens, 1), 2),
        "strategies": [step.detail() for step in attempt.steps],
    }
