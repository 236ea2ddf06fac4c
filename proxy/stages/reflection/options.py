"""What the stage `reflection` can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from proxy.ports.failure_kinds import SignalType
from proxy.ports.stage import Positive, Share, StageOptions


class ReflectionOptions(StageOptions, frozen=True, kw_only=True):
    """``reflection:``"""

    top_k: Annotated[Positive, Meta(description="failures told in one prompt, at most")] = 5
    max_tokens: Annotated[int, Meta(ge=0, description="longest block of guidance; 0: failures are recorded and never told")] = 200
    escalate_after: Annotated[
        Annotated[int, Meta(ge=2)] | None,
        Meta(
            description="the same failure this often in a run without progress: the proxy asks the user, or ends the request with an error "
            "where an invariant is broken; null: never, the model is told of it"
        ),
    ] = None
    stall_after: Annotated[int, Meta(ge=3, description="steps without anything new that count as a stall")] = 6
    scope: Annotated[
        Literal["run", "client"], Meta(description="whose failures are told: the run's own, or those of all runs of the client")
    ] = "run"
    min_score: Annotated[
        Share,
        Meta(
            description="a search whose best passage scores below it, as its retriever says from 0 to 1, has failed; a threshold that the "
            "call or its result names goes before it, and scores that are no shares (BM25, distances, rank fusion) are left alone; 0: none"
        ),
    ] = 0.2
    signals: Annotated[
        tuple[SignalType, ...],
        Meta(min_length=1, description="what counts as a failure, of these"),
    ] = ("tool_error", "upstream_error", "retrieval_failure", "schema_violation", "loop", "human_correction", "budget_pressure")
    enforce: Annotated[
        bool,
        Meta(description="put caps that failures recommend on the arguments of tool calls, with a warning; needs delivery: hold"),
    ] = False

    def __post_init__(self) -> None:
        if len(set(self.signals)) != len(self.signals):
            twice = next(signal for signal in self.signals if self.signals.count(signal) > 1)
            raise ValueError(f"signals: {twice} stands here twice")
