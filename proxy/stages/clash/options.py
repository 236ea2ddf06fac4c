"""What the stage `clash` can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from proxy.stage import Positive, Share
from proxy.verification.options import VerifierOptions

Part = Literal["user", "system", "memory", "tool_results", "passages"]
Resolving = Literal["prefer_recent", "ask_user", "merge"]


class ClashOptions(VerifierOptions, frozen=True, kw_only=True):
    """``clash:``"""

    strategy: Annotated[
        Resolving,
        Meta(
            description="prefer_recent (the older statement's sentence leaves the context), ask_user (the proxy asks, and goes by the "
            "reply) or merge (one statement where both can hold); a change of mind said as such is followed in any case"
        ),
    ] = "prefer_recent"
    critical_strategy: Annotated[
        Resolving | None, Meta(description="for critical clashes (allergies, health, safety, large sums); null: as all others")
    ] = None
    critical_topics: Annotated[
        tuple[Annotated[str, Meta(min_length=2)], ...],
        Meta(description="further topics that are critical, by how a word of the statements begins: [visa, medic]"),
    ] = ()
    between: Annotated[
        tuple[Part, ...],
        Meta(
            min_length=1,
            description="whose statements are compared: user, system, memory (marked sections and memory tools), tool_results, passages",
        ),
    ] = ("user", "system", "memory", "tool_results", "passages")
    max_pairs: Annotated[
        Positive, Meta(description="pairs judged for one request; what is left over is an error, and judged next time")
    ] = 64
    min_score: Annotated[Share, Meta(description="probability from which two statements count as clashing")] = 0.5
    max_asked: Annotated[Positive, Meta(description="how often the user is asked about one clash before it is only reported")] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.between)) != len(self.between):
            twice = next(part for part in self.between if self.between.count(part) > 1)
            raise ValueError(f"between: {twice} stands here twice")
