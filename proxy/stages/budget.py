"""Token budget: how much of the model's window a prompt takes, by component; warns, and refuses what cannot fit.

First of the stages on a request (it measures what the client sent), last before the upstream (it measures what is sent). Compression
is another stage's; this one tells it, through `exchange.facts`, how full the window is and how much of it each component may take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from proxy.context.compaction.parts import use_of
from proxy.errors import ContextLengthExceeded
from proxy.exchange import CompressionResult, ContextUse, Exchange, Facts, Outcome, Verdict, VerdictView
from proxy.exchange.facts import reserve_limit
from proxy.ports import ModelInfo, Ports
from proxy.ports.stage import Action, Share, Stage, StageHeader, StageOptions

Tokens = Annotated[int, Meta(gt=0)]


class Allocations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Most tokens each component should take; one that is not named has no limit of its own.

    ``user_preferences`` are memories of the user (`proxy.context.pieces`), in whatever message they stand.
    """

    system_instructions: Tokens | None = None
    user_preferences: Tokens | None = None
    conversation_history: Tokens | None = None
    tool_descriptions: Tokens | None = None
    current_query: Tokens | None = None
    available_for_tools: Tokens | None = None

    def given(self) -> dict[str, int]:
        """Those that are set, by name."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: tokens for name, tokens in found.items() if tokens is not None}


class BudgetOptions(StageOptions, frozen=True, kw_only=True):
    """``budget:``"""

    window: Annotated[
        Tokens | Literal["auto"],
        Meta(description="context window in tokens; auto takes the model's own, from the bundled list or config.yaml"),
    ] = "auto"
    reserve_output_tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="tokens of the window kept free for the answer; the request's max_tokens counts instead where it has one, and "
            "nothing is kept free of a window that is the prompt's alone (Gemini, most of GPT-5)",
        ),
    ] = 1024
    warn_at: Annotated[Share, Meta(description="share of the window from which a request is a warning")] = 0.70
    compress_at: Annotated[Share, Meta(description="share from which the prompt should be compressed")] = 0.80
    critical_at: Annotated[Share, Meta(description="share from which it should be compressed hard")] = 0.90
    allocations: Annotated[
        Allocations,
        Meta(
            description="most tokens by component; their sum may not pass the window. The stage compression brings a component over its "
            "own back to it, and says so; without it, and of the system message and the question, it is a warning"
        ),
    ] = Allocations()

    def __post_init__(self) -> None:
        if not self.warn_at <= self.compress_at <= self.critical_at:
            raise ValueError("expected warn_at <= compress_at <= critical_at")
        total = sum(self.allocations.given().values())
        if self.window != "auto" and total > self.window:
            raise ValueError(f"the allocations add up to {total} tokens, more than the window's {self.window}")


COUNTERS = {
    "context.usage_warning_count": "prompts above the budget's warn_at and below the next threshold",
    "context.compression_triggered_count": "prompts above compress_at and below critical_at",
    "context.critical_alerts_count": "prompts above critical_at",
    "context.allocation_exceeded_count": "prompts of which a component is above its allocation",
    "context.length_exceeded_count": "prompts that were refused as too long for the window",
}


def _context(facts: Facts, verdicts: Sequence[VerdictView]) -> str | None:
    use = facts.context
    return None if use is None else f"{use.used_tokens}/{use.window_tokens or 'unknown'};{'exact' if use.exact else 'estimate'}"


class Budget(Stage[BudgetOptions]):
    """Counts the prompt's tokens, warns as the window fills, refuses what cannot fit."""

    name = "budget"
    checks = False
    measures = True
    Options = BudgetOptions
    assigns = ("token_count",)
    counters = COUNTERS
    headers = (StageHeader("context", "used/window;exact or ;estimate, in tokens, as sent upstream", _context),)
    reports = (
        "context_usage_high",
        "context_usage_compress",
        "context_usage_critical",
        "allocation_exceeded",
        "allocation_compressed",
        "window_unknown",
    )

    @classmethod
    def actions(cls, options: BudgetOptions) -> tuple[Action, ...]:
        """It counts."""
        return (*(Action("warn", code, exact=True) for code in cls.reports), Action("block", "context_length_exceeded", exact=True))

    def __init__(self, options: BudgetOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._allocations = options.allocations.given()

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Measure what the client sent."""
        exchange.facts.allocations = {**self._allocations} or None
        use = await self._measure(exchange)
        exchange.facts.context_before = exchange.facts.context = use
        exchange.facts.output_reserve_tokens = self._reserve(exchange, use)
        return None

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """Measure what is sent; judge it. Raises `ContextLengthExceeded`."""
        before = exchange.facts.context_before
        original = exchange.original
        same = exchange.messages is original.messages and exchange.tools is original.tools and exchange.params is original.params
        use = before if before is not None and same else await self._measure(exchange)
        exchange.facts.context = use
        reserve = exchange.facts.output_reserve_tokens = self._reserve(exchange, use)
        over = use.window_tokens is not None and use.used_tokens - (use.guessed_tokens or 0) + reserve > use.window_tokens
        if over and not original.server_side_history:  # what the provider holds it may have shortened, and it alone knows
            self.ports.counters.count("context.length_exceeded_count")
            if use.exceeded_by_answer(exchange.wants.max_output_tokens):
                raise ContextLengthExceeded(no_room(use, reserve, exchange.wants.limit_field), param=exchange.wants.limit_field)
            raise ContextLengthExceeded(too_long(use, reserve), param="messages")
        return self._judge(use, reserve, exchange.facts.compression or CompressionResult())

    async def _measure(self, exchange: Exchange) -> ContextUse:
        tokens = self.ports.tokens
        model = tokens.model(exchange.model)
        use = await use_of(exchange, self.ports, exchange.messages, exchange.tools)
        window = model.window_tokens if self.options.window == "auto" else self.options.window
        return replace(use, window_tokens=window)

    def _reserve(self, exchange: Exchange, use: ContextUse) -> int:
        model = self.ports.tokens.model(exchange.model)
        if model.answers_beside_window and self.options.window == "auto":
            return 0
        return output_reserve(exchange.wants.max_output_tokens, model, self.options.reserve_output_tokens, use.window_tokens)

    def _judge(self, use: ContextUse, reserve: int, compressed: CompressionResult) -> Verdict:
        """By what is sent, or, in the request in which it was compressed, by what had set the compression to work."""
        options, found_share = self.options, compressed.found_share or 0.0
        detail: dict[str, Any] = {
            "used_tokens": use.used_tokens,
            "window_tokens": use.window_tokens,
            "exact": use.exact,
            "reserve_output_tokens": reserve,
            "components": dict(use.components),
        }
        over = over_allocation(use.components, self._allocations, use.window_tokens)
        if over:
            detail["over_allocation"] = over
            self.ports.counters.count("context.allocation_exceeded_count")
        fitted = {name: use.components.get(name, 0) for name in compressed.fitted or () if name not in over}
        if fitted:
            detail["compressed_to_allocation"] = fitted
        if found_share > use.share:
            detail["found_share"] = found_share
        code = threshold(max(use.share, found_share), options)
        counter = _COUNTERS.get(code)
        if counter:
            self.ports.counters.count(counter)
        code = code or ("window_unknown" if use.window_tokens is None else "")  # no threshold works, and nothing is compressed
        code = code or ("allocation_exceeded" if over else "allocation_compressed" if fitted else "")
        outcome: Outcome = "warn" if code else "unchecked"
        return Verdict(self.name, outcome, code=code, score=round(min(use.share, 1.0), 4), detail=detail)


_COUNTERS: Mapping[str, str] = {
    "context_usage_high": "context.usage_warning_count",
    "context_usage_compress": "context.compression_triggered_count",
    "context_usage_critical": "context.critical_alerts_count",
}


def threshold(share: float, options: BudgetOptions) -> str:
    """The code of the highest threshold that `share` of the window reaches, or ""."""
    if share >= options.critical_at:
        return "context_usage_critical"
    if share >= options.compress_at:
        return "context_usage_compress"
    return "context_usage_high" if share >= options.warn_at else ""


def output_reserve(asked_tokens: int | None, model: ModelInfo, reserve_tokens: int, window_tokens: int | None) -> int:
    """Tokens to keep free for the answer: what the request asks for, or else the policy's reserve within the model's own limit.

    A request's ``max_tokens`` counts when it is given, since providers refuse a prompt that leaves no room for it.
    """
    if asked_tokens is not None:
        return asked_tokens
    reserve = min(reserve_tokens, model.max_output_tokens or reserve_tokens)
    return min(reserve, reserve_limit(window_tokens)) if window_tokens else reserve


def over_allocation(components: Mapping[str, int], allocations: Mapping[str, int], window_tokens: int | None) -> dict[str, Any]:
    """Components that take more than their allocation: ``{name: {"used_tokens", "allocated_tokens"}}``.

    ``available_for_tools`` is room that the rest must leave free, so it is over when less than that is left of the window.
    """
    over: dict[str, Any] = {}
    for name, allocated in allocations.items():
        if name == "available_for_tools":
            if window_tokens is None:
                continue
            free = window_tokens - sum(components.values())
            if free < allocated:
                over[name] = {"free_tokens": free, "allocated_tokens": allocated}
        elif components.get(name, 0) > allocated:
            over[name] = {"used_tokens": components[name], "allocated_tokens": allocated}
    return over


def too_long(use: ContextUse, reserve: int) -> str:
    """The message of a 400 ``context_length_exceeded``: used, window, reserve, and what would help."""
    largest = sorted(use.components.items(), key=lambda item: (-item[1], item[0]))[:2]
    parts = ", ".join(f"{name} {tokens}" for name, tokens in largest if tokens)
    counted = "" if use.exact else " (estimated)"
    # The first sentences are OpenAI's own, which client libraries look for to raise their context-length error.
    return (
        f"Input tokens exceed the configured limit of {use.window_tokens} tokens. "
        f"Your messages resulted in {use.used_tokens} tokens{counted}, and {reserve} are reserved for the answer; nothing is left to "
        f"compress. Compress context or split content: the largest parts are {parts or 'unknown'}. "
        "A smaller max_tokens or a model with a larger window helps too."
    )


def no_room(use: ContextUse, asked_tokens: int, field: str) -> str:
    """The same for a prompt that fits, and an answer that is asked to be too long; `field` is where the client asks for it."""
    assert use.window_tokens is not None
    counted = "" if use.exact else " (estimated)"
    return (  # OpenAI's own words again, for a completion that does not fit
        f"{field} is too large: {asked_tokens}. This model's maximum context length is {use.window_tokens} tokens, and your messages "
        f"resulted in {use.used_tokens} tokens{counted}, which leaves {use.window_tokens - use.used_tokens} for the answer. A smaller "
        f"{field} or a model with a larger window helps."
    )
