"""The dashboard's panel of clashes: how many were found, and who resolved them. The review's table of clashes has all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.language.amounts import number
from proxy.ports.panels import Bucket, Panel, StagePanel, most_common, over_time, said


class ClashPanel(StagePanel):
    """Contradictions found and resolved."""

    name = "clashes"
    title = "Contradictions"

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Found and open ones."""
        found, by_policy = sum(whole.clashes.values()), sum(whole.clash_strategies.values())
        course = (
            *over_time("found", [float(sum(b.clashes.values())) for b in buckets]),
            *over_time("open", [float(b.clashes_open) for b in buckets]),
        )
        return Panel(
            name=cls.name,
            title=cls.title,
            headline=number(found),
            meaning="found in conversations",
            detail=said(
                f"{by_policy:,} ({by_policy / found:.0%}) resolved by the policy, {whole.clashes_open:,} open" if found else "",
                most_common(whole.clashes),
                "the policy did: " + most_common(whole.clash_strategies) if by_policy else "",
            ),
            series=course if found else (),
            hint="" if found else "The stage clash finds statements of one conversation that contradict each other.",
        )
