"""What policies in shadow mode would have done, added up of the records: how many exchanges they would have blocked, why, and which."""

from __future__ import annotations

from typing import Any

from proxy.cli.report_tallies import raised, ranked
from proxy.store.detail import RecordDetail

LISTED = 10
"""Of the exchanges that would have been blocked, the newest."""


class ShadowTally:
    """Of one period."""

    def __init__(self) -> None:
        self._judged = 0
        self._would: dict[str, int] = {}
        self._reasons: dict[str, int] = {}
        self._blocked: list[dict[str, Any]] = []

    def add(self, detail: RecordDetail, record_id: str, created_at: float, model: str) -> None:
        """One exchange; they come newest first."""
        if detail.enforced:
            return
        self._judged += 1
        would = {verdict.would: verdict for verdict in reversed(detail.verdicts) if verdict.would}
        for action in would:
            raised(self._would, action)
        if (block := would.get("block")) is not None:
            reason = f"{block.stage}: {block.code}" if block.code else block.stage
            raised(self._reasons, reason)
            if len(self._blocked) < LISTED:
                self._blocked.append({"id": record_id, "created_at": created_at, "model": model, "reason": reason})

    def as_json(self) -> dict[str, Any]:
        """``judged`` are the exchanges in shadow mode, ``would`` how many of them it would have blocked, changed, asked about."""
        return {
            "judged": self._judged,
            "would": ranked(self._would),
            "blocked": self._would.get("block", 0),
            "reasons": ranked(self._reasons),
            "newest_blocked": self._blocked,
        }
