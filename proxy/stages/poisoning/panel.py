"""The dashboard's panel of poisoning: how many pieces of context were kept out, and what was wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Facts
from proxy.language.amounts import number
from proxy.ports.panels import Bucket, Panel, RecordedVerdict, StagePanel, most_common, over_time, said

ALERT_ABOVE = 0.05
"""Share of poisoned pieces above which the panel says so, as ``alert_above`` of the stage and ``monitoring/alerts.yml`` do."""


class _Checks(Struct, frozen=True):
    """Of a verdict's detail."""

    checked: int = 0


class PoisoningPanel(StagePanel):
    """What was checked; what came into quarantine is the review's to count."""

    name = "poisoning"
    title = "Content kept out"
    poisoning_checked: int = 0
    """New pieces of context that were checked."""

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        self.poisoning_checked += sum(verdict.noted(_Checks).checked for verdict in verdicts if verdict.stage == "poisoning")

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Pieces kept out, their share, and what people decided."""
        found, checked = sum(whole.quarantined.values()), whole.of(cls).poisoning_checked
        states = ", ".join(f"{count:,} {name}" for name, count in sorted(whole.quarantine.items()))
        return Panel(
            name=cls.name,
            title=cls.title,
            headline=number(found),
            meaning="kept out of the context" + (f", {found / checked:.1%} of those checked" if found and checked else ""),
            detail=said(
                f"alert: more than {ALERT_ABOVE:.0%} of what came in" if found > ALERT_ABOVE * (checked or found) else "",
                f"{checked:,} new pieces checked" if checked else "",
                states,
                most_common(whole.quarantined),
            ),
            series=over_time("kept out", [float(sum(b.quarantined.values())) for b in buckets]) if found else (),
            hint="" if found or checked else "Add the stage poisoning to a policy to check new content before it enters.",
        )
