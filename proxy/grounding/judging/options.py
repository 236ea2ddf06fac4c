"""What a policy says of its judge: ``judge:``, and ``second_opinion:``, its old name.

judge: {upstream: openai, model: gpt-4o-mini, kind: chat, ask: unsure, max_usd_per_day: 2}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.ports.judge import AskAbout
from proxy.ports.stage import Share


class JudgeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``judge:`` of a policy: who is asked what a text means."""

    kind: Annotated[
        Literal["decisions", "chat", "builtin"],
        Meta(
            description="decisions: a decision model of the upstream, which answers with probabilities; chat: any chat model; builtin: "
            "the models of this process alone"
        ),
    ] = "chat"
    upstream: Annotated[str, Meta(description="an upstream of config.yaml with a key of its own; not for builtin")] = ""
    model: Annotated[
        str,
        Meta(
            description="model name, as that upstream knows it; of builtin a folder in the built-in verifier's format, and nothing for "
            "the built-in one"
        ),
    ] = ""
    ask: Annotated[
        AskAbout,
        Meta(
            description="what it is asked about: what the built-in models are not sure to hold (unsure), or every statement that nothing "
            "exact decides (all)"
        ),
    ] = "unsure"
    timeout_ms: Annotated[
        float, Meta(gt=0, description="longest wait for its answers, retries included; then the built-in ones' stand")
    ] = 4000
    max_usd_per_day: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="what it may cost from midnight to midnight, UTC, all workers and servers that share a store together; it needs a "
            "known price",
        ),
    ] = None
    readout: Annotated[
        Literal["json", "logprobs"],
        Meta(
            description="chat: how its answers are read: many questions a call, answered in JSON, or one a call, by the log "
            "probabilities of the first token of its answer"
        ),
    ] = "json"
    params: Annotated[Mapping[str, Any], Meta(description="chat: further fields of the call, as max_tokens")] = {}
    temperature: Annotated[
        float, Meta(gt=0, description="its probabilities are flattened (above 1) or sharpened by it; groundwire judge calibrate fits it")
    ] = 1.0
    min_support: Annotated[Share, Meta(description="probability from which its supported counts")] = 0.6
    min_contradiction: Annotated[Share, Meta(description="probability from which its contradicted counts")] = 0.6

    def __post_init__(self) -> None:
        if self.kind == "builtin" and self.upstream:
            raise ValueError("upstream is for kind: decisions and kind: chat")
        if self.kind != "builtin" and not (self.upstream and self.model):
            raise ValueError(f"kind {self.kind} needs upstream and model")


class SecondOpinion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``second_opinion:`` of a policy: the old name of a judge that is asked about what the built-in one is unsure of."""

    upstream: Annotated[str, Meta(min_length=1, description="an upstream of config.yaml with a key of its own")]
    model: Annotated[str, Meta(min_length=1, description="model name, as that upstream knows it")]
    timeout_s: Annotated[float, Meta(gt=0, description="longest wait for its judgement, retries included")] = 4.0
    params: Annotated[Mapping[str, Any], Meta(description="further fields of the call, as max_tokens")] = {}

    @property
    def judge(self) -> JudgeOptions:
        """The same as a judge."""
        return JudgeOptions(
            kind="chat", upstream=self.upstream, model=self.model, ask="unsure", timeout_ms=self.timeout_s * 1000, params=self.params
        )
