"""What a policy says of verifiers, and the verifier that it means.

    - claims:
        verifiers: [builtin, {llm: {upstream: openai, model: gpt-4o-mini, timeout_s: 4}}]
        combine: cascade

An entry is ``builtin``, ``{model: NAME_OR_FOLDER}`` (an NLI cross-encoder or token classifier, with the extra
``groundwire[sentence-transformers]``; a relative folder starts at config.yaml) or ``{llm: {…}}``. A stage's options extend
`VerifierOptions`; the stage itself calls `make_verifier` once and ``for_client`` for each exchange.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.grounding.judging.combined import UNSURE, Combine, CombinedVerifier
from proxy.grounding.judging.llm import LLMVerifier, LLMVerifierOptions
from proxy.ports import Ports, Verifier
from proxy.ports.stage import Share, StageOptions


class OtherVerifier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of ``verifiers:`` that is not ``builtin``."""

    model: Annotated[str, Meta(min_length=1, description="name on the Hugging Face hub, or a folder")] | None = None
    llm: LLMVerifierOptions | None = None

    def __post_init__(self) -> None:
        if (self.model is None) == (self.llm is None):
            raise ValueError("expected builtin, {model: NAME_OR_FOLDER} or {llm: {upstream: …, model: …}}")


class VerifierOptions(StageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a stage that verifies."""

    verifiers: Annotated[
        tuple[Literal["builtin"] | OtherVerifier, ...],
        Meta(min_length=1, max_length=5, description="who judges: builtin, {model: NAME_OR_FOLDER}, {llm: {upstream, model, …}}"),
    ] = ("builtin",)
    combine: Annotated[
        Combine,
        Meta(
            description="of several verifiers: the next only where the one before is unsure (cascade), the mean of all (mean), "
            "or the one that supports least (strictest)"
        ),
    ] = "cascade"
    unsure: Annotated[tuple[Share, Share], Meta(description="cascade: between these supports the next verifier is asked")] = UNSURE

    def __post_init__(self) -> None:
        if self.unsure[0] >= self.unsure[1]:
            raise ValueError(f"unsure: expected [LOW, HIGH] with LOW below HIGH, got {list(self.unsure)}")
        for i, entry in enumerate(self.verifiers):
            if entry in self.verifiers[:i]:
                raise ValueError(f"verifiers[{i}] stands here twice")


def asks(options: VerifierOptions) -> dict[str, str]:
    """For `Stage.asks`: upstreams by path inside the options."""
    return {
        f"verifiers[{i}].llm.upstream": entry.llm.upstream
        for i, entry in enumerate(options.verifiers)
        if isinstance(entry, OtherVerifier) and entry.llm is not None
    }


def local_models(options: Any) -> tuple[str, ...]:
    """What `ports.verifiers.get` is asked for by a stage with these options, to be loaded at start; "" is the built-in one."""
    if not isinstance(options, VerifierOptions):
        return ("",)
    found = ("" if entry == "builtin" else entry.model for entry in options.verifiers if not _is_llm(entry))
    return tuple(name for name in found if name is not None)


def _is_llm(entry: str | OtherVerifier) -> bool:
    return isinstance(entry, OtherVerifier) and entry.llm is not None


def make_verifier(options: VerifierOptions, ports: Ports) -> CombinedVerifier:
    """The verifier of a policy's stage, made once; nothing is loaded yet."""
    members: list[Verifier] = []
    for entry in options.verifiers:
        if isinstance(entry, OtherVerifier) and entry.llm is not None:
            members.append(LLMVerifier(ports.chat, entry.llm))
        else:
            members.append(ports.verifiers.get("" if entry == "builtin" else entry.model or ""))
    return CombinedVerifier(members, options.combine, options.unsure)
