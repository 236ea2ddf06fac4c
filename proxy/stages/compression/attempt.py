"""One request's compression: the strategies in order, each measured, and taken back when it frees nothing or breaks the conversation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.compaction.conversation import UNAVAILABLE
from proxy.context.compaction.folding import NOTE_TOKENS, FoldedRun, folded
from proxy.context.compaction.late import LateSummaries
from proxy.context.compaction.measure import prompt_use, token_counter
from proxy.context.compaction.notes import SUMMARY_SHARE, Noted, archived_run, most_summary_tokens, own_and_earlier_tokens
from proxy.context.compaction.parts import Part, messages_of
from proxy.context.compaction.runs import Run, foldable_runs, recent_blocks_start
from proxy.context.conversation import last_user, problems
from proxy.errors import StoreUnavailable
from proxy.exchange import ContextUse, Exchange
from proxy.language.text import text_of
from proxy.ports import Ports
from proxy.stages.compression.allocations import CompressionGoal
from proxy.stages.compression.archive import archived_results
from proxy.stages.compression.summarise import summaries_detail, summarised
from proxy.stages.compression.trim import old_runs, oldest_runs

if TYPE_CHECKING:
    from proxy.context.summaries.summariser import Summariser
    from proxy.stages.compression.options import CompressionOptions, Strategy

KEPT = "failed-kept-original"
NOTHING = "nothing-left"


class CompressionStep(Struct, frozen=True):
    """What one strategy did."""

    strategy: str
    before_tokens: int
    after_tokens: int
    ms: float
    reason: str = ""
    """Why it changed nothing: ``nothing-left``, ``failed-kept-original``, ``store-unavailable``."""
    more: dict[str, Any] = {}

    def detail(self) -> dict[str, Any]:
        """For the record."""
        found: dict[str, Any] = {
            "strategy": self.strategy,
            "before_tokens": self.before_tokens,
            "after_tokens": self.after_tokens,
            "freed_tokens": self.before_tokens - self.after_tokens,
            "ratio": round(self.before_tokens / max(self.after_tokens, 1), 2),
            "ms": round(self.ms, 1),
        }
        return found | ({"reason": self.reason} if self.reason else {}) | self.more


class CompressionRun:
    """`parts` and `use` are the prompt as it now is."""

    def __init__(
        self,
        exchange: Exchange,
        ports: Ports,
        options: CompressionOptions,
        summariser: Summariser,
        ages: Sequence[float | None],
        parts: Sequence[Part],
        use: ContextUse,
    ) -> None:
        """`ages` are those of the client's messages, in seconds."""
        self.parts, self.use = parts, use
        self.steps: list[CompressionStep] = []
        self.late = LateSummaries(exchange, ports)
        self._exchange, self._ports, self._options, self._summariser, self._ages = exchange, ports, options, summariser, ages
        self._tokens = token_counter(exchange, ports)
        original = exchange.conversation
        self._last_user = last_user(original)
        self._query = text_of(original[self._last_user].get("content")) if self._last_user is not None else ""

    async def run(self, goal: CompressionGoal) -> None:
        """One strategy after the other, until the prompt is at the target: each of what is oldest only as much as that takes.

        A summary is longer, or a reference is, than was reckoned with: then once more, of all that may be folded.
        """
        given, options = self.parts, self._options
        await self._rounds(options.strategies, options.keep_recent, goal, until_target=True, sparing=True)
        if goal.excess(self.use) > 0 and self.parts is not given:
            await self._rounds(options.strategies, options.keep_recent, goal, until_target=True, sparing=False)

    async def run_hard(self, goal: CompressionGoal) -> None:
        """All strategies, up to the last block: what has a summary needs no trimming."""
        given = self._options.strategies
        chosen = [strategy for strategy in given if strategy != "trim" or "summarize" not in given]
        await self._rounds(chosen, 1, goal, until_target=False, sparing=False)

    async def _rounds(
        self, strategies: Sequence[Strategy], keep_blocks: int, goal: CompressionGoal, *, until_target: bool, sparing: bool
    ) -> None:
        """Each strategy; one that was taken back again, when a later one has changed the prompt.

        The first that archives anything pays for the tool that reads it, so that another may free tokens only after that. The same request
        starts from what is stored, and would find so.
        """
        taken_back: dict[Strategy, Sequence[Part]] = {}
        due: Sequence[Strategy] = strategies
        while due:
            for strategy in due:
                if until_target and goal.excess(self.use) <= 0:
                    return
                await self._step(strategy, keep_blocks, goal, sparing=sparing)
                taken_back.pop(strategy, None)
                if self.steps[-1].reason == KEPT:
                    taken_back[strategy] = self.parts
            due = [strategy for strategy in strategies if taken_back.get(strategy, self.parts) is not self.parts]

    async def _step(self, strategy: Strategy, keep_blocks: int, goal: CompressionGoal, *, sparing: bool) -> None:
        started, before = time.perf_counter(), self.use
        reason = NOTHING
        more: dict[str, Any] = {}
        try:
            end = recent_blocks_start(self.parts, keep_blocks)
            excess = goal.excess(self.use, await self._reader_tokens())
            parts, more = await self._apply(strategy, end, excess, sparing=sparing)
            if parts is not self.parts:
                reason = await self._accept(parts)
        except StoreUnavailable:
            reason = UNAVAILABLE
        ms = (time.perf_counter() - started) * 1000
        self.steps.append(CompressionStep(strategy, before.used_tokens, self.use.used_tokens, ms, reason, more))

    async def _reader_tokens(self) -> int:
        """What the tool that reads the archive will take; 0 where it is counted already, or will not be offered."""
        if not self.parts or any(part.made for part in self.parts):
            return 0
        with_reader = await prompt_use(self._exchange, self._ports, [*self.parts[:-1], replace(self.parts[-1], made=True)])
        return with_reader.used_tokens - self.use.used_tokens

    async def _accept(self, parts: Sequence[Part]) -> str:
        """Go on with `parts`, or say why not."""
        use = await prompt_use(self._exchange, self._ports, parts)
        broken = set(_plain(problems(messages_of(parts)))) - set(_plain(problems(messages_of(self.parts))))
        if use.used_tokens >= self.use.used_tokens or broken:
            return KEPT
        self.parts, self.use = parts, use
        return ""

    async def _apply(self, strategy: Strategy, end: int, excess: int, *, sparing: bool) -> tuple[Sequence[Part], dict[str, Any]]:
        """What the strategy makes of the prompt, which is `excess` tokens above its goal."""
        if strategy == "archive":
            most = excess if sparing else None
            archived = await archived_results(self._exchange, self._ports, self.parts, self._tokens, most)
            return archived.parts, {"results": archived.results}
        if strategy == "trim":
            trimmed = await self._trimmed(end, excess, sparing=sparing)
            return trimmed.parts, {"runs": [[note.part.start, note.part.end] for note in trimmed.notes]}
        summary_tokens = self._options.max_summary_tokens
        runs = (
            await self._oldest(end, excess + await self._note_tokens(excess))
            if sparing
            else foldable_runs(self.parts, end, self._last_user)
        )
        done = await summarised(
            self._exchange,
            self._ports,
            self._summariser,
            self.late,
            self.parts,
            runs,
            self._tokens,
            query=self._query,
            max_tokens=summary_tokens,
        )
        return done.parts, {"summaries": summaries_detail(done)}

    async def _note_tokens(self, excess: int) -> int:
        """The most that the note takes which stands for `excess` tokens, itself and the notes that are there."""
        _, earlier = await own_and_earlier_tokens(self._exchange, self._ports, self.parts)
        own = int(max(excess, 0) / (1 - SUMMARY_SHARE))
        return max(most_summary_tokens(self._exchange, own, earlier, self._options.max_summary_tokens), NOTE_TOKENS)

    async def _oldest(self, end: int, tokens: int) -> list[Run]:
        """The first blocks before `end` that hold so many tokens."""
        return oldest_runs(self.parts, end, self._last_user, await self._counts(), tokens)

    async def _counts(self) -> list[int]:
        framing = await self._tokens([])
        return [await self._tokens([part.message]) - framing for part in self.parts]

    async def _trimmed(self, end: int, excess: int, *, sparing: bool) -> FoldedRun:
        if any(age is not None for age in self._ages):
            most = excess + await self._note_tokens(excess) if sparing else None
            runs = old_runs(self.parts, end, self._last_user, self._ages, self._options.max_age_s, await self._counts(), most)
        else:
            runs = await self._oldest(end, excess + await self._note_tokens(excess))

        framing = await self._tokens([])
        whole = sum([await self._tokens(messages_of(self.parts[run.start : run.end])) - framing for run in runs])

        async def write(parts: Sequence[Part], run: Run) -> Noted:
            """What matters most of the run stays where the goal leaves room for it."""
            stands_for = await self._tokens(messages_of(parts[run.start : run.end])) - framing
            spare = int(stands_for * (1 - max(excess, 0) / whole)) if whole > excess else 0
            most = min(most_summary_tokens(self._exchange, stands_for, 0, self._options.max_summary_tokens), spare)
            return await archived_run(self._exchange, self._ports, parts, run, self._query, max_important_tokens=most)

        return await folded(self.parts, runs, write, self._tokens)


def _plain(found: Sequence[str]) -> list[str]:
    """Problems without their positions, which change as messages go."""
    return [text.partition(": ")[2] for text in found]
