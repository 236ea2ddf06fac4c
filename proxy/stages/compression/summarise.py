"""Strategy ``summarize``: each run of older blocks becomes one message with a summary; an earlier summary is folded in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proxy.context.compaction.folding import FoldedRun, folded
from proxy.context.compaction.late import LateSummaries
from proxy.context.compaction.measure import Tokens
from proxy.context.compaction.notes import Noted, summarised_run
from proxy.context.compaction.parts import Part
from proxy.context.compaction.runs import Run
from proxy.exchange import Exchange
from proxy.ports import Ports

if TYPE_CHECKING:
    from proxy.context.summaries.summariser import Summariser


async def summarised(
    exchange: Exchange,
    ports: Ports,
    summariser: Summariser,
    late: LateSummaries,
    parts: Sequence[Part],
    runs: Sequence[Run],
    tokens: Tokens,
    *,
    query: str,
    max_tokens: int | None,
) -> FoldedRun:
    """Each run by its summary of at most `max_tokens` (None: by default). Raises `StoreUnavailable`."""

    async def write(current: Sequence[Part], run: Run) -> Noted:
        return await summarised_run(exchange, ports, summariser, late, current, run, query=query, max_tokens=max_tokens)

    return await folded(parts, runs, write, tokens)


def summaries_detail(done: FoldedRun) -> list[dict[str, Any]]:
    """For the record: of each summary who made it, what was wrong with a rejected one, and what it stands for."""
    return [
        {"made_by": summary.made_by, "problems": list(summary.problems), "ms": round(summary.ms, 1), "messages": [part.start, part.end]}
        for note in done.notes
        if (summary := note.summary) is not None
        for part in (note.part,)
    ]
