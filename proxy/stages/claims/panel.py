"""The dashboard's panel of answers: their mean quality, of which faithfulness is a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.exchange import Facts
from proxy.language.amounts import dollars, many, score
from proxy.ports.panels import Bucket, Panel, RecordedVerdict, StagePanel, over_time, ratio, said

_VERDICTS = {"pass": "held in every statement", "unsure": "not all decided", "unchecked": "not checked"}


class QualityPanel(StagePanel):
    """Scores of answers."""

    name = "quality"
    title = "Answer quality"
    quality_count: int = 0
    quality_sum: float = 0.0
    faithfulness_count: int = 0
    faithfulness_sum: float = 0.0
    judge_asked: int = 0
    judge_cached: int = 0
    judge_unanswered: int = 0
    judge_usd: float = 0.0

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        if facts.quality is not None:
            self.quality_count += 1
            self.quality_sum += facts.quality
        if facts.faithfulness is not None:
            self.faithfulness_count += 1
            self.faithfulness_sum += facts.faithfulness
        if facts.judge is not None:
            self.judge_asked += facts.judge.asked
            self.judge_cached += facts.judge.cached
            self.judge_unanswered += facts.judge.unanswered
            self.judge_usd += facts.judge.usd or 0.0

    @property
    def mean(self) -> float | None:
        """Quality, 0 to 1."""
        return ratio(self.quality_sum, self.quality_count)

    @property
    def mean_faithfulness(self) -> float | None:
        """0 to 1."""
        return ratio(self.faithfulness_sum, self.faithfulness_count)

    @property
    def judge(self) -> str:
        """What the policies' judge was asked, and what that cost."""
        if not self.judge_asked:
            return ""
        said = f"judge asked {many(self.judge_asked, 'question')}"
        known = f", {self.judge_cached:,} known already" if self.judge_cached else ""
        silent = f", {self.judge_unanswered:,} unanswered" if self.judge_unanswered else ""
        return f"{said}{known}{silent}" + (f", {dollars(self.judge_usd)}" if self.judge_usd else "")

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Both means over time."""
        done = whole.of(cls)
        faithful = f"faithfulness {score(done.mean_faithfulness)} over {many(done.faithfulness_count, 'answer')}"
        course = (
            *over_time("quality", [b.of(cls).mean for b in buckets]),
            *over_time("faithfulness", [b.of(cls).mean_faithfulness for b in buckets]),
        )
        return Panel(
            name=cls.name,
            title=cls.title,
            headline=score(done.mean),
            meaning="mean quality of answers, 0 to 1",
            unit="score",
            detail=said(
                faithful if done.faithfulness_count else "",
                many(done.quality_count, "answer") + " measured" if done.quality_count else "",
                done.judge,
                *(f"{whole.verdicts[name]:,} {words}" for name, words in _VERDICTS.items() if whole.verdicts.get(name)),
            ),
            series=course if done.quality_count or done.faithfulness_count else (),
            hint="" if done.quality_count else "The stages claims and citations check answers against their context.",
        )
