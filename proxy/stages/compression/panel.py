"""The dashboard's panel of compression: how much smaller prompts became."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.exchange import Facts
from proxy.language.amounts import NONE, many
from proxy.ports.panels import Bucket, Panel, RecordedVerdict, StagePanel, over_time, said


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
        return Panel(
            name=cls.name,
            title=cls.title,
            headline=f"{before / after:.1f}×" if after else NONE,
            meaning="smaller, where compressed",
            detail=said(freed if done.compressions else ""),
            series=over_time("compressed", [float(b.of(cls).compressions) for b in buckets]) if done.compressions else (),
            hint="" if done.compressions else "The stage compression begins where a prompt fills 80% of its window.",
        )
