"""History: a conversation so long that a model loses its thread (context distraction) is reported, and shortened where the policy says so.

``note`` measures what is sent, and tells of it in a header, the record and the dashboard; it warns of nothing and changes nothing. Any
other action comes before compression, and goes by what is forwarded, not by the window. ``summarize`` puts one summary in place of all but
the recent messages, ``sliding_window`` one reference to the scratchpad. Either is decided once, stored, and repeated byte for byte until
`every` further messages have come, so that the forwarded prefix stays the same in between.

The alert is ``DISTRACTION``, a warning but for ``note``, with its severity, what would help and what was done. What would help: a summary
of a history that is far too long, whose old messages still matter, a window for one that has just become so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from proxy.context.archive import READ_ARCHIVE, answer_from_archive, offer_archive
from proxy.context.compaction.notes import SUMMARY_TOKENS_HELP, RunNote, RunNotes
from proxy.context.compaction.parts import (
    CompactedPrompt,
    Part,
    foldable_runs,
    messages_of,
    prompt_use,
    recall,
    recent_messages_start,
    send,
    store,
    token_counter,
)
from proxy.context.conversation import last_user
from proxy.context.summaries.summariser import SUMMARISER_HELP, Summariser, SummariserOptions
from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Facts, Outcome, ToolCall, Verdict
from proxy.exchange.facts import Distraction
from proxy.language.amounts import number
from proxy.ports import Ports
from proxy.ports.panels import Bucket, Lines, Panel, RecordedVerdict, StagePanel, make_panel, most_common, raise_count
from proxy.ports.stage import Positive, Stage, StageHeader, StageOptions

Action = Literal["note", "warn", "summarize", "sliding_window"]
Severity = Literal["MEDIUM", "HIGH"]
_KEEP: Mapping[str, int] = {"note": 0, "warn": 0, "summarize": 5, "sliding_window": 10}
_SYSTEM = ("system", "developer")
_HISTORY = ("conversation_history", "current_query", "user_preferences")
"""Components of a counted prompt that are no system message and no tool."""
_HEADER = "of a history so long that it distracts: MEDIUM or HIGH, and messages=N;tokens=N, as sent upstream"
_FAR_TOO_MANY = 1.5
"""Times `max_messages` above which a summary is recommended: 30 messages of 20."""


class HistoryOptions(StageOptions, frozen=True, kw_only=True):
    """``history:``"""

    removed = {"summariser.timeout_s": "leave it out: deadline_ms is the longest wait for a summary, and nothing goes on behind it"}
    max_messages: Annotated[
        Positive, Meta(description="messages, without system messages, from which a history distracts; above twice as many severely")
    ] = 20
    max_tokens: Annotated[Positive, Meta(description="tokens of these messages from which it distracts; above twice as many severely")] = (
        2000
    )
    action: Annotated[
        Action,
        Meta(
            description="note (header, record and dashboard), warn, summarize all but the recent messages, or sliding_window: archive all "
            "but the recent ones"
        ),
    ] = "warn"
    every: Annotated[Positive, Meta(description="messages that must have come since the last time before it is done again")] = 10
    keep_recent: Annotated[
        Positive | None, Meta(description="messages at the end that stay as they are; 5 for summarize, 10 for sliding_window")
    ] = None
    max_summary_tokens: Annotated[Positive | None, Meta(description=SUMMARY_TOKENS_HELP)] = None
    summariser: Annotated[SummariserOptions | None, Meta(description=SUMMARISER_HELP)] = None
    timeout_ms: Annotated[
        float, Meta(gt=0, description="time budget of each of its hooks, in milliseconds; past it the stage is an error")
    ] = 15000

    @property
    def recent_messages(self) -> int:
        """How many recent messages stay."""
        return self.keep_recent or _KEEP[self.action]


class Length(Struct, frozen=True):
    """How long a history is."""

    messages: int
    tokens: int

    def severity(self, max_messages: int, max_tokens: int) -> Severity | None:
        """MEDIUM from a limit on, HIGH above twice a limit, None below both."""
        times = max(self.messages / max_messages, self.tokens / max_tokens)
        return "HIGH" if times > 2 else "MEDIUM" if times >= 1 else None

    def recommended(self, max_messages: int) -> Action:
        """What helps most; a window that is as long as the history would change nothing."""
        window = _KEEP["sliding_window"] < self.messages <= _FAR_TOO_MANY * max_messages
        return "sliding_window" if window else "summarize"

    def limits_reached(self, max_messages: int, max_tokens: int) -> str:
        """Which limits it has reached, for a person."""
        lengths = ((self.messages, max_messages, "messages"), (self.tokens, max_tokens, "tokens"))
        over = [f"{length} of {most} {unit}" for length, most, unit in lengths if length >= most]
        return f"Conversation history reaches its threshold ({', '.join(over)}). Apply summarization or a sliding window."


COUNTERS = {
    "context.distraction_count": "histories that are too long",
    "context.history_summarize_count": "histories shortened by a summary",
    "context.history_sliding_window_count": "histories shortened to a window",
}


class _Alert(Struct, frozen=True):
    """Of a verdict's detail."""

    severity: str = ""
    recommended_action: str = ""


class HistoryPanel(StagePanel):
    """Histories that are too long."""

    name = "distraction"
    title = "Long conversations"
    distractions: dict[str, int] = field(default_factory=dict)
    """By severity."""
    recommended: dict[str, int] = field(default_factory=dict)
    """The same by the recommended action."""

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        for verdict in verdicts:
            if verdict.stage == "history" and (alert := verdict.noted(_Alert)).severity:
                raise_count(self.distractions, alert.severity)
                raise_count(self.recommended, alert.recommended_action)

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Alerts, and what would help."""
        found = whole.of(cls)
        alerts = sum(found.distractions.values())
        advice = "recommended: " + most_common(found.recommended) if found.recommended else ""
        lines: Lines = {"alerts": lambda b: float(sum(b.of(cls).distractions.values()))}
        hint = "" if alerts else "The stage history tells when a conversation has outgrown what a model attends to."
        detail, meaning = (most_common(found.distractions), advice), "alerts: histories that are too long"
        return make_panel(cls.name, cls.title, number(alerts), meaning, detail, buckets, lines, hint=hint)


class History(Stage[HistoryOptions]):
    """Tells of a history that distracts the model, or shortens it."""

    name = "history"
    checks = False
    Options = HistoryOptions
    changes = ("messages", "tools")
    shortens_history = True
    counters = COUNTERS
    panel = HistoryPanel
    headers = (StageHeader("distraction", _HEADER, lambda facts, _: None if facts.distraction is None else facts.distraction.text),)
    measures = True
    reports = ("DISTRACTION",)
    answers = (READ_ARCHIVE,)

    def __init__(self, options: HistoryOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._summariser = Summariser(ports.chat, options.summariser)

    @classmethod
    def asks(cls, options: HistoryOptions) -> Mapping[str, str]:
        """The summariser's upstream."""
        return {"summariser.upstream": options.summariser.upstream} if options.summariser else {}

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Repeat what was decided, measure what is left, act."""
        options = self.options
        if options.action == "note":
            return None
        known = await recall(exchange, self.ports)
        length = await self._length(exchange, known.parts)
        done, result = known, "none"
        if self._severity(length) and options.action != "warn":
            done, result = await self._shorten(exchange, known)
        await self._send(exchange, done)
        if self._severity(length) is None:
            return Verdict(self.name, "unchecked", detail={"store": known.problem}) if known.problem else None
        after = length if done is known else await self._length(exchange, done.parts)
        return self._alert(exchange, "warn", length, after, result, done.problem)

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """Where it only notes: measure what is sent, once, behind the budget, which has counted it."""
        if self.options.action != "note" or exchange.facts.distraction is not None:
            return None
        history = [message for message in exchange.messages if message.get("role") not in _SYSTEM]
        use = exchange.facts.context
        tokens = sum(use.components.get(name, 0) for name in _HISTORY) if use is not None else 0
        length = Length(len(history), tokens or await token_counter(exchange, self.ports)(history))
        return self._alert(exchange, "unchecked", length, length, "none", "") if self._severity(length) else None

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """Read the archive."""
        return await answer_from_archive(self.ports.scratchpad, exchange, call)

    async def _shorten(self, exchange: Exchange, known: CompactedPrompt) -> tuple[CompactedPrompt, str]:
        """The conversation shortened, and what was done: the action, or why nothing."""
        options = self.options
        since = sum(part.start >= known.length for part in known.parts) - options.recent_messages
        if known.length and since < options.every:
            return known, "not-yet"
        end = recent_messages_start(known.parts, options.recent_messages)
        runs = foldable_runs(known.parts, end, last_user(exchange.conversation))
        notes = RunNotes(exchange, self.ports, self._summariser)

        async def write(inside: Sequence[Part]) -> RunNote:
            if options.action == "sliding_window":
                return await notes.archive(inside)
            return await notes.summarise(inside, options.max_summary_tokens)

        try:
            done = await notes.fold(known.parts, runs, write)
        except StoreUnavailable:
            return known, "store-unavailable"
        if not done.notes:
            return known, "nothing-left"
        before = await prompt_use(exchange, self.ports, known.parts)
        if (await prompt_use(exchange, self.ports, done.parts)).used_tokens >= before.used_tokens:
            return known, "failed-kept-original"
        self.ports.counters.count(f"context.history_{options.action}_count")
        return await store(exchange, self.ports, done.parts, known), options.action

    async def _send(self, exchange: Exchange, done: CompactedPrompt) -> None:
        given = exchange.messages
        await send(exchange, done.parts)
        offer_archive(exchange)
        if exchange.messages is not given:
            exchange.changes.append({"stage": self.name, "what": "messages", "sent": len(exchange.messages)})

    async def _length(self, exchange: Exchange, parts: Sequence[Part]) -> Length:
        history = [message for message in messages_of(parts) if message.get("role") not in _SYSTEM]
        return Length(len(history), await token_counter(exchange, self.ports)(history))

    def _severity(self, length: Length) -> Severity | None:
        return length.severity(self.options.max_messages, self.options.max_tokens)

    def _alert(self, exchange: Exchange, outcome: Outcome, before: Length, after: Length, result: str, problem: str) -> Verdict:
        """That the history was too long `before`, and how long it is `after` what was done."""
        options, severity = self.options, self._severity(before)
        self.ports.counters.count("context.distraction_count")
        if severity is not None:
            exchange.facts.distraction = Distraction(severity, after.messages, after.tokens)
        detail = {
            "severity": severity,
            "messages": before.messages,
            "tokens": before.tokens,
            "max_messages": options.max_messages,
            "max_tokens": options.max_tokens,
            "message": before.limits_reached(options.max_messages, options.max_tokens),
            "recommended_action": before.recommended(options.max_messages),
            "action": options.action,
            "result": result,
            "messages_after": after.messages,
            "tokens_after": after.tokens,
            "store": problem or "ok",
        }
        return Verdict(self.name, outcome, code="DISTRACTION", detail=detail)
