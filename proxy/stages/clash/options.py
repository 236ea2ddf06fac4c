"""What the stage `clash` can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import force_setattr

from proxy.ports.stage import StageOptions

Part = Literal["user", "system", "memory", "tool_results", "passages"]
Resolving = Literal["prefer_recent", "ask_user", "merge", "PREFER_RECENT", "ASK_USER", "MERGE"]
"""A strategy, in small letters or, as other systems write their enumerations, in capital ones."""
Editing = Literal["none", "memory", "all"]


class ClashOptions(StageOptions, frozen=True, kw_only=True):
    """``clash:``"""

    removed = {
        "critical_topics": "leave it out: critical are allergies, health, safety and large sums",
        "max_pairs": "leave it out, 64 pairs of a request are judged",
        "min_score": "leave it out, the threshold is the built-in one's, or the judge decides (judge: at the top of the policy)",
    }
    strategy: Annotated[
        Resolving,
        Meta(
            description="what is done about a clash that is certain: prefer_recent (the newer statement counts), ask_user (the proxy asks, "
            "and goes by the reply) or merge (one statement where both can hold, else the user is asked); a change of mind said as such is "
            "followed in any case"
        ),
    ] = "prefer_recent"
    edits: Annotated[
        Editing,
        Meta(
            description="where a statement that no longer counts is taken out: memory (memories only; of two of the user's own a note says "
            "which counts), all (their own words, too) or none (every clash is only reported)"
        ),
    ] = "memory"
    critical_strategy: Annotated[
        Resolving | None, Meta(description="for critical clashes (allergies, health, safety, large sums); null: as all others")
    ] = None
    between: Annotated[
        tuple[Part, ...],
        Meta(
            min_length=1,
            description="whose statements are compared: user, memory (marked sections and memory tools), system, tool_results, passages; "
            "of the last three clashes are only reported",
        ),
    ] = ("user", "memory")
    semantic: Annotated[
        bool,
        Meta(
            description="have what no rule decides judged by the built-in models, and by the policy's judge, before the model is asked: "
            "it is only reported"
        ),
    ] = False
    max_asked: Annotated[
        Annotated[int, Meta(ge=0)],
        Meta(description="how often the user is asked about one clash before it is only reported; 0 asks nothing"),
    ] = 2

    def __post_init__(self) -> None:
        for name in ("strategy", "critical_strategy"):
            if (chosen := getattr(self, name)) is not None:
                force_setattr(self, name, chosen.lower())
        if len(set(self.between)) != len(self.between):
            twice = next(part for part in self.between if self.between.count(part) > 1)
            raise ValueError(f"between: {twice} stands here twice")
