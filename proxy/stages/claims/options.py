"""What the stage `claims` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from proxy.ports.stage import Share, StageOptions

Action = Literal["annotate", "redact", "retry", "replace", "block"]
Sensitivity = Literal["low", "balanced", "high"]
POINTS: Mapping[Sensitivity, tuple[float, float]] = {"low": (0.1, 0.35), "balanced": (0.2, 0.5), "high": (0.35, 0.65)}
"""Probabilities of support up to which a claim is unsupported, and from which it is supported; what each is worth: `benchmarks.claims`."""


class ClaimsOptions(StageOptions, frozen=True, kw_only=True):
    """``claims:``"""

    removed = {
        "min_faithfulness": "an answer with a failing claim is acted upon, however much of it is supported",
        "tool_arguments": "the stage schema checks the arguments of tool calls; what they take for granted, a stage of your own can",
        "marker": "what is taken out leaves nothing",
        "max_claims": "100 claims of a choice are judged; the rest of a longer answer is unsure",
        "without_context": "without context, an answer is checked by what the request itself says",
    }
    cpu_ms: Annotated[
        float,
        Meta(
            gt=0,
            description="processor time of each of its hooks, in milliseconds, for each 20,000 characters; models' time is not counted "
            "(an answer of 43 statements about tables takes 410 on a slow machine)",
        ),
    ] = 500
    action: Annotated[
        Action,
        Meta(
            description="what becomes of an answer with failing claims: annotate (headers and record), redact (their sentences go), retry "
            "(ask again; needs delivery: hold), replace (the no-answer text; what the gate has let go stays), block (400 policy_blocked)"
        ),
    ] = "annotate"
    fail_on: Annotated[
        Literal["contradicted", "unsupported", "unsure"],
        Meta(
            description="which claims fail, so that the answer is warned of or acted upon: what the context plainly contradicts, also "
            "what nothing in it supports (unsupported), or all that it is not sure to support (unsure: a small model's opinion is "
            "then enough)"
        ),
    ] = "contradicted"
    sensitivity: Annotated[
        Sensitivity,
        Meta(
            description="how readily a claim is doubted: low leaves more right ones alone, high finds more wrong ones; where they are "
            "not set it says min_support, and below which support a claim is unsupported: 0.1, 0.2 or 0.35"
        ),
    ] = "balanced"
    min_support: Annotated[
        Share | None,
        Meta(description="probability from which a claim counts as supported; without one sensitivity's: 0.35, 0.5 or 0.65"),
    ] = None
    min_contradiction: Annotated[
        Share,
        Meta(
            description="probability from which one that is not supported is unsure rather than unsupported; contradicted, where another "
            "model than the built-in one judges"
        ),
    ] = 0.5
    replacement: Annotated[
        str | Mapping[str, str],
        Meta(description="the no-answer text, or texts by language; without one of the answer's language, relevance's wording"),
    ] = {}
    retries: Annotated[int, Meta(ge=1, le=3, description="retry: how often the model may be asked again")] = 1
    embed: Annotated[bool, Meta(description="find the evidence by similarity too, not by words alone")] = True

    def bounds(self) -> tuple[float, float]:
        """Probabilities of support up to which a claim is unsupported, and from which it is supported."""
        low, high = POINTS[self.sensitivity]
        high = high if self.min_support is None else self.min_support
        return min(low, high), high
