"""What a policy may say of the stage `citations`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from proxy.ports.stage import Positive, Share, StageOptions


class CitationsOptions(StageOptions, frozen=True, kw_only=True):
    """``citations:``"""

    action: Annotated[
        Literal["annotate", "redact", "block"],
        Meta(
            description="what becomes of citations that do not hold: annotate (headers and record), redact (their marks go, the text "
            "stays), block (400 policy_blocked)"
        ),
    ] = "annotate"
    fail_on: Annotated[
        Literal["invented", "unsupported"],
        Meta(
            description="which citations do not hold, so that the answer is warned of or acted upon: those of a passage or source that is "
            "not there, and quotations of the context that are not in it word for word, or also those that the cited passage does not seem "
            "to support"
        ),
    ] = "invented"
    require: Annotated[
        bool, Meta(description="whether a sentence that states something must cite something: else citations_missing; block refuses it")
    ] = False
    min_precision: Annotated[
        Share,
        Meta(
            description="block with fail_on: unsupported: share of citations that must be relevant to their sentence, as ALCE counts them"
        ),
    ] = 1.0
    min_recall: Annotated[
        Share, Meta(description="block: share of the sentences that state something which their citations must support")
    ] = 0.0
    ignored_below: Annotated[
        Share,
        Meta(
            description="mean support below which an answer that neither cites its passages nor admits to not knowing ignores the context"
        ),
    ] = 0.5
    min_support: Annotated[Share, Meta(description="probability from which a passage counts as supporting a claim")] = 0.5
    embed: Annotated[bool, Meta(description="find the place in a long passage by similarity too, not by words alone")] = True
    max_citations: Annotated[Positive, Meta(description="citations judged of one answer; the rest is an error, not a pass")] = 60
