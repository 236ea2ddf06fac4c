"""What the stage `poisoning` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from proxy.cleaning.edits import NOTE
from proxy.cleaning.pieces import PieceKind
from proxy.poisoning.decisions import Action, Rules
from proxy.poisoning.injection import THRESHOLD
from proxy.stage import Positive, Share
from proxy.verification.options import VerifierOptions

Role = Literal["assistant", "tool", "user", "passages"]
KIND_OF: Mapping[Role, PieceKind] = {"assistant": "assistant", "tool": "tool_result", "user": "user", "passages": "passage"}


class PoisoningOptions(VerifierOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``poisoning:``"""

    roles: Annotated[
        tuple[Role, ...], Meta(min_length=1, description="whose content is checked when it is new: assistant, tool, user, passages")
    ] = ("assistant", "tool", "passages")
    against: Annotated[
        tuple[Literal["knowledge", "tool_results"], ...],
        Meta(
            description="what statements are checked against: the knowledge base, and for the assistant's and the user's the tool "
            "results and passages that stand before them"
        ),
    ] = ("knowledge",)
    knowledge: Annotated[str, Meta(description="folder of the knowledge base; without it that of the stage knowledge")] = ""
    on_invalid: Annotated[
        Literal["block", "quarantine", "reject", "annotate"],
        Meta(
            description="false statements: block (they leave the context, and stay out unless a person approves them), quarantine (until a "
            "person decides), reject (400 policy_blocked), annotate (record only)"
        ),
    ] = "block"
    on_suspicious: Annotated[
        Literal["quarantine", "annotate", "reject"], Meta(description="doubtful statements: quarantine, annotate or reject, as above")
    ] = "quarantine"
    on_low_confidence: Annotated[
        Literal["forward", "annotate", "quarantine", "block", "reject"],
        Meta(description="statements that are not known to be true with min_confidence; forward demands nothing"),
    ] = "forward"
    min_confidence: Annotated[Share, Meta(description="on_low_confidence: the confidence that the policy demands")] = 0.8
    injections: Annotated[
        Literal["quarantine", "block", "annotate", "ignore"],
        Meta(description="tool results and passages with instructions to the model in them; ignore does not look for any"),
    ] = "quarantine"
    min_injection_score: Annotated[Share, Meta(description="strength from which a text counts as an instruction to the model")] = THRESHOLD
    answers: Annotated[
        Literal["contradicted", "unsupported", "none"],
        Meta(
            description="answers that the stage claims has found contradicted (or unsupported, too) enter quarantine, so that the client "
            "cannot feed them back as history"
        ),
    ] = "contradicted"
    min_contradiction: Annotated[Share, Meta(description="probability from which a statement counts as contradicted")] = 0.5
    note: Annotated[str, Meta(min_length=1, description="what stands in a message of which nothing is left")] = NOTE
    marker: Annotated[str, Meta(description="what stands in place of a statement that was taken out; empty takes it out cleanly")] = ""
    alert_above: Annotated[Share, Meta(description="share of poisoned pieces among the last 200 from which on the log warns")] = 0.05
    max_claims: Annotated[
        Positive, Meta(description="statements judged of one piece; the rest of a longer one is an error, not a pass")
    ] = 200
    cache_size: Annotated[Positive, Meta(description="pieces whose check is remembered by a worker")] = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.roles)) != len(self.roles):
            raise ValueError("roles: one stands here twice")
        if self.on_low_confidence != "forward" and "knowledge" not in self.against:
            raise ValueError("on_low_confidence: only a knowledge base can tell that a statement is true: against: [knowledge]")

    @property
    def kinds(self) -> tuple[PieceKind, ...]:
        """The kinds of pieces that are checked."""
        return tuple(KIND_OF[role] for role in self.roles)

    @property
    def rules(self) -> Rules:
        """For `proxy.poisoning.decisions`."""
        low: Action = "pass" if self.on_low_confidence == "forward" else self.on_low_confidence
        injections: Action = "pass" if self.injections == "ignore" else self.injections
        return Rules(self.on_invalid, self.on_suspicious, low, self.min_confidence, injections, self.min_injection_score)
