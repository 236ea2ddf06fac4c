"""``validation:`` in a policy."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta

from proxy.context.pieces import PieceKind
from proxy.ports.stage import Share, StageOptions
from proxy.stages.validation.quality import METRICS, QualityThresholds

MIN_CONTRADICTION = 0.65
"""Calibrated probability from which a statement counts as contradicted: of supported statements 2.6% come that far on public development
rows and 5.3% on written ones, of contradicted ones 55% and 12%. ``python -m benchmarks.validation`` says what it finds, and how often it
finds a contradiction between texts that agree."""
Action = Literal["note", "annotate", "down_rank", "drop", "reject"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""From the mildest on."""
Failing = Literal["relevance", "freshness", "accuracy", "completeness", "consistency", "score"]
Seconds = Annotated[float, Meta(gt=0)]


class ValidationOptions(StageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``validation:``"""

    removed: ClassVar[Mapping[str, str]] = {
        "timestamp_fields": "the usual names (timestamp, as_of, fetched_at, updated_at, …) are looked for, and groundwire.timestamp",
        "max_claims": "four statements of a piece are looked up in the knowledge base; the stage poisoning looks up all",
        "max_pieces": "256 pieces of a turn are looked at; those beyond it are an error",
        "weights": "the score is the mean of what was measured; thresholds: {…} and action: {…} go by metric",
        "cache_size": "a worker remembers the quality of the last 4,096 pieces",
    }
    action: Annotated[
        Action | Mapping[Failing, Action],
        Meta(
            description="what becomes of content below a threshold: note (record and metrics), annotate (warnings, too), down_rank (a "
            "passage goes behind the others, any other content gets a mark), drop (a note takes its place), reject (400 policy_blocked); "
            "or by metric"
        ),
    ] = "note"
    thresholds: Annotated[QualityThresholds, Meta(description="by metric: below it content fails; score is for their mean")] = (
        QualityThresholds()
    )
    kinds: Annotated[
        tuple[PieceKind, ...], Meta(min_length=1, description="what is validated: tool_result, passage, system, user, assistant")
    ] = ("tool_result", "passage")
    memory: Annotated[
        tuple[str, ...], Meta(description="messages whose name or groundwire.source matches one of these are validated whatever their role")
    ] = ("memory*", "*_memory", "*memories*")
    max_age_s: Annotated[
        Seconds | None, Meta(description="age up to which content is fresh, as it was when it first came; null: any age will do")
    ] = None
    max_ages_s: Annotated[
        Mapping[str, Seconds], Meta(description="the same by name pattern of tool or source; the first that matches counts")
    ] = {}
    required_fields: Annotated[
        Mapping[str, tuple[str, ...]],
        Meta(description="fields that content must have, by name pattern of tool or source; paths as a.b[0].c"),
    ] = {}
    min_contradiction: Annotated[Share, Meta(description="probability from which a statement contradicts the existing context")] = (
        MIN_CONTRADICTION
    )

    def __post_init__(self) -> None:
        if not isinstance(self.action, str) and not self.action:
            raise ValueError(f"action: expected one of {', '.join(ACTIONS)}, or some of {', '.join((*METRICS, 'score'))} with theirs")

    def action_for(self, failing: str) -> Action:
        """What to do about content that fails this metric; one that the policy does not name is noted."""
        if isinstance(self.action, str):
            return self.action
        return self.action.get(failing, "note")  # type: ignore[call-overload, no-any-return]  # any name may be asked for

    @property
    def changes_context(self) -> bool:
        """Whether what was decided on earlier turns must be repeated."""
        return not {"drop", "down_rank"}.isdisjoint(self._actions)

    @property
    def rejects(self) -> bool:
        """Whether it may refuse the request."""
        return "reject" in self._actions

    @property
    def _actions(self) -> set[str]:
        return {self.action} if isinstance(self.action, str) else set(self.action.values())

    def max_age_of(self, *names: str) -> float | None:
        """For content of the tool or source that `names` name."""
        return next((age for pattern, age in self.max_ages_s.items() if matches(names, (pattern,))), self.max_age_s)

    def required_of(self, *names: str) -> tuple[str, ...]:
        """The fields that content of the tool or source that `names` name must have."""
        return next((fields for pattern, fields in self.required_fields.items() if matches(names, (pattern,))), ())


def matches(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Whether one of `names` matches one of `patterns` (as of `fnmatch`, whatever the case)."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names if name for pattern in patterns)
