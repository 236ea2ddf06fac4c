"""What a policy may say of the stage `citations`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from proxy.ports.stage import Share, StageOptions


class CitationsOptions(StageOptions, frozen=True, kw_only=True):
    """``citations:``"""

    removed = {
        "min_precision": "action: block with fail_on: unsupported refuses an answer with any citation that does not support its sentence",
        "min_recall": "require: true asks for a citation in each sentence that states something",
        "ignored_below": "an answer ignores its passages where less than half of it is supported",
        "max_citations": "of an answer 60 citations are judged",
    }
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
    min_support: Annotated[Share, Meta(description="probability from which a passage counts as supporting a claim")] = 0.5
    embed: Annotated[bool, Meta(description="find the place in a long passage by similarity too, not by words alone")] = True
