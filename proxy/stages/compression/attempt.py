"""One request's compression: the strategies in order, each measured, and taken back when it frees nothing or breaks the conversation.

``trim``: of what is older than `max_age_s` the oldest leaves the prompt; where no ages are known, of all. ``summarize``: each run of older
blocks becomes one message with a summary; an earlier summary is folded in. ``archive``: a tool's result that the model has read goes to the
scratchpad, and a reference stays in its place; the message stays, with its call's id, and a result that a reference would not shorten stays
as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.archive import REFERENCE_TOKENS, reference
from proxy.context.compaction.notes import NOTE_TOKENS, SUMMARY_SHARE, FoldedPrompt, RunNote, RunNotes, most_summary_tokens
from proxy.context.compaction.parts import (
    RESULT_ROLES,
    UNAVAILABLE,
    Part,
    Run,
    Tokens,
    foldable_runs,
    messages_of,
    prompt_use,
    recent_blocks_start,
    token_counter,
)
from proxy.context.conversation import blocks_of, called_names, content_bytes, last_user, problems, result_name
from proxy.errors import StoreUnavailable
from proxy.exchange import ContextUse, Exchange
from proxy.language.dates import seconds_of
from proxy.ports import Ports
from proxy.stages.compression.allocations import CompressionGoal

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
        self.notes = RunNotes(exchange, ports, summariser)
        self._exchange, self._ports, self._options, self._ages = exchange, ports, options, ages
        self._tokens = token_counter(exchange, ports)
        self._last_user = last_user(exchange.conversation)

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
            trimmed = await self._trim(end, excess, sparing=sparing)
            return trimmed.parts, {"runs": [[note.part.start, note.part.end] for note in trimmed.notes]}
        tokens = excess + await self._note_tokens(excess)
        runs = await self._oldest(end, tokens) if sparing else foldable_runs(self.parts, end, self._last_user)
        most_summary = self._options.max_summary_tokens
        done = await self.notes.fold(self.parts, runs, lambda inside: self.notes.summarise(inside, most_summary))
        return done.parts, {"summaries": summaries_detail(done)}

    async def _note_tokens(self, excess: int) -> int:
        """The most that the note takes which stands for `excess` tokens, itself and the notes that are there."""
        _, earlier = await self.notes.own_and_earlier_tokens(self.parts)
        own = int(max(excess, 0) / (1 - SUMMARY_SHARE))
        return max(most_summary_tokens(self._exchange, own, earlier, self._options.max_summary_tokens), NOTE_TOKENS)

    async def _oldest(self, end: int, tokens: int) -> list[Run]:
        """The first blocks before `end` that hold so many tokens."""
        return oldest_runs(self.parts, end, self._last_user, await self._counts(), tokens)

    async def _counts(self) -> list[int]:
        framing = await self._tokens([])
        return [await self._tokens([part.message]) - framing for part in self.parts]

    async def _trim(self, end: int, excess: int, *, sparing: bool) -> FoldedPrompt:
        if any(age is not None for age in self._ages):
            most = excess + await self._note_tokens(excess) if sparing else None
            runs = old_runs(self.parts, end, self._last_user, self._ages, self._options.max_age_s, await self._counts(), most)
        else:
            runs = await self._oldest(end, excess + await self._note_tokens(excess))

        framing = await self._tokens([])
        whole = sum([await self._tokens(messages_of(self.parts[run.start : run.end])) - framing for run in runs])

        async def write(inside: Sequence[Part]) -> RunNote:
            """What matters most of the run stays where the goal leaves room for it."""
            stands_for = await self._tokens(messages_of(inside)) - framing
            spare = int(stands_for * (1 - max(excess, 0) / whole)) if whole > excess else 0
            most = min(most_summary_tokens(self._exchange, stands_for, 0, self._options.max_summary_tokens), spare)
            return await self.notes.archive(inside, max_important_tokens=most)

        return await self.notes.fold(self.parts, runs, write)


def _plain(found: Sequence[str]) -> list[str]:
    """Problems without their positions, which change as messages go."""
    return [text.partition(": ")[2] for text in found]


def summaries_detail(done: FoldedPrompt) -> list[dict[str, Any]]:
    """For the record: of each summary who made it, what was wrong with a rejected one, and what it stands for."""
    return [
        {"made_by": summary.made_by, "problems": list(summary.problems), "ms": round(summary.ms, 1), "messages": [part.start, part.end]}
        for note in done.notes
        if (summary := note.summary) is not None
        for part in (note.part,)
    ]


class ArchivedResults(Struct, frozen=True):
    """A prompt with references in place of results."""

    parts: Sequence[Part]
    results: int
    """How many were archived."""


def processed_results(parts: Sequence[Part]) -> list[int]:
    """Positions of the client's own tool results that an assistant message follows."""
    found: list[int] = []
    answered = False
    for block in reversed(blocks_of(messages_of(parts))):
        if block.kind == "tools" and answered:
            inside = range(block.start + 1, block.end)
            found += [i for i in reversed(inside) if not parts[i].made and parts[i].message.get("role") in RESULT_ROLES]
        answered = answered or block.kind in ("assistant", "tools")
    return found[::-1]


async def archived_results(
    exchange: Exchange, ports: Ports, parts: Sequence[Part], tokens: Tokens, most_tokens: int | None = None
) -> ArchivedResults:
    """Archive processed results, oldest first, until `most_tokens` are freed; every one where it is None. Raises `StoreUnavailable`."""
    names = called_names(exchange.conversation)
    found, results, freed = list(parts), 0, 0
    for i in processed_results(parts):
        if most_tokens is not None and freed >= most_tokens:
            break
        message = parts[i].message
        before = await tokens([message])
        if before <= REFERENCE_TOKENS:
            continue
        content = content_bytes(message)
        media_type = "text/plain" if isinstance(message.get("content"), str) else "application/json"
        item_id = await ports.scratchpad.put(content, client=exchange.client, run_id=exchange.run_id, media_type=media_type)
        shorter = {**message, "content": reference(item_id, result_name(message, names) or "tool result", len(content))}
        if (after := await tokens([shorter])) < before:
            freed += before - after
            found[i] = replace(parts[i], message=shorter, made=True)
            results += 1
    return ArchivedResults(found if results else parts, results)


def message_ages(hints: Mapping[int, Mapping[str, Any]], first_seen: Sequence[float] | None, count: int, now: float) -> list[float | None]:
    """Age in seconds of each of `count` messages: by the client's timestamp, or else since it was first seen; None when not known."""
    times = [seconds_of(hints.get(i, {}).get("timestamp")) for i in range(count)]
    if first_seen is not None:
        times = [seen if time is None else time for time, seen in zip(times, first_seen, strict=True)]
    return [None if time is None else now - time for time in times]


def old_runs(
    parts: Sequence[Part],
    end: int,
    last_user: int | None,
    ages: Sequence[float | None],
    max_age_s: float,
    tokens: Sequence[int],
    most_tokens: int | None = None,
) -> list[Run]:
    """The first blocks before `end` all of whose messages are older than `max_age_s`, until they hold `most_tokens`; all where it is None.

    `tokens` are those of each part.
    """

    def old(block: Sequence[Part]) -> bool:
        inside = [ages[i] for part in block for i in range(part.start, part.end)]
        return bool(inside) and all(age is not None and age > max_age_s for age in inside)

    return foldable_runs(parts, end, last_user, _until(most_tokens, parts, tokens, old))


def oldest_runs(parts: Sequence[Part], end: int, last_user: int | None, tokens: Sequence[int], excess_tokens: int) -> list[Run]:
    """The first blocks before `end` until they hold `excess_tokens`; `tokens` are those of each part."""
    return foldable_runs(parts, end, last_user, _until(excess_tokens, parts, tokens, lambda block: True))


def _until(
    most_tokens: int | None, parts: Sequence[Part], tokens: Sequence[int], wanted: Callable[[Sequence[Part]], bool]
) -> Callable[[Sequence[Part]], bool]:
    """As `wanted`, of blocks that are asked about in order, until those that were wanted hold `most_tokens`."""
    taken = 0
    by_part = {id(part): count for part, count in zip(parts, tokens, strict=True)}

    def next_oldest(block: Sequence[Part]) -> bool:
        nonlocal taken
        if (most_tokens is not None and taken >= most_tokens) or not wanted(block):
            return False
        taken += sum(by_part[id(part)] for part in block)
        return True

    return next_oldest
