"""The stage `reflection`: failures of an agent's run are found, remembered, told when they matter, and stopped when they repeat.

On the request the whole conversation is read (`proxy.stages.reflection.history`); what is new in it is put into the store, what
the store knows of the present situation goes as one short block to the prompt's end, and the same failure three times without progress ends
in a question or an error instead of another call. When the answer has left, what only it showed is put into the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.context.conversation import last_user_text
from proxy.context.passages import is_retrieval_tool
from proxy.context.tool_results.turns import CalledTool, ToolResult, turns_of
from proxy.errors import PolicyBlocked, StoreUnavailable
from proxy.exchange import Answer, Choice, Exchange, Request, ToolCall, Verdict
from proxy.language.detection import language
from proxy.language.json.fingerprint import identifier
from proxy.language.lru import LRU, key_of
from proxy.offloop import LARGE, SENTENCES, run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.failures import Failure, FailureEvent, FailureRecord, SignalType
from proxy.ports.stage import Action, Positive, Share, Stage, StageHeader, StageOptions, count_text
from proxy.stages.reflection import failures, wording
from proxy.stages.reflection.history import FailureHistory, Reading, ask_judge, history_of, read_conversation, warm
from proxy.stages.reflection.records import (
    ASKED,
    COUNTERS,
    REPEATED,
    STOPPED,
    UNCHECKED,
    Escalation,
    count_events,
    detail_of,
    escalation,
    listed,
    select,
    superseded,
)


class ReflectionOptions(StageOptions, frozen=True, kw_only=True):
    """``reflection:``"""

    removed = {
        "stall_after": "leave it out: six steps without anything new are a stall",
        "enforce": "leave it out: the model is told what to ask for, and the arguments of its calls stay its own",
    }
    top_k: Annotated[Positive, Meta(description="failures told in one prompt, at most")] = 5
    max_tokens: Annotated[int, Meta(ge=0, description="longest block of guidance; 0: failures are recorded and never told")] = 200
    escalate_after: Annotated[
        Annotated[int, Meta(ge=2)] | None,
        Meta(
            description="the same failure this often in a run without progress: the proxy asks the user, or ends the request with an error "
            "where an invariant is broken; null: never, the model is told of it"
        ),
    ] = None
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

    def __post_init__(self) -> None:
        if len(set(self.signals)) != len(self.signals):
            twice = next(signal for signal in self.signals if self.signals.count(signal) > 1)
            raise ValueError(f"signals: {twice} stands here twice")


CANDIDATES = 24
"""Records that are read for one request, at least; of these the ones that matter are chosen."""
SUBJECTS = 24
"""Tools whose failures are looked for: those called lately, then those offered; of the others the latest failures come by themselves."""
INJECTED = "told failures"
MAX_EVENTS = 16_384
"""That this worker remembers to have put into the store, about 100 bytes each. A memory only: the store knows each by its cause."""
MAX_EXCHANGES = 4096
"""Whose answer has not left yet, and runs that are known to have failed."""


class _Situation(Struct):
    """What one request's conversation and the store say."""

    history: FailureHistory
    records: list[FailureRecord]
    """Active, and relevant to where the run stands."""
    newest: list[FailureRecord]
    """Those that the newest step shows."""


class Reflection(Stage[ReflectionOptions]):
    """Remembers what went wrong in a run, tells it, stops repetition."""

    name = "reflection"
    Options = ReflectionOptions
    follows = ("budget", "knowledge", "validation", "poisoning", "clash", "history", "compression", "tool_rag", "relevance", "faithful")
    changes = ("messages", "answer")
    counters = COUNTERS
    headers = (StageHeader("failures", "failure records injected", lambda facts, _: count_text(facts.failures_injected)),)
    reports = (REPEATED, ASKED, STOPPED, UNCHECKED)
    retryable = frozenset((UNCHECKED,))

    def __init__(self, options: ReflectionOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._applied_events: LRU[bool] = LRU(MAX_EVENTS)
        """Every turn brings the whole conversation again, and most of it is known."""
        self._failing_runs: LRU[bool] = LRU(MAX_EXCHANGES)
        """Those for which something has been applied."""
        self._injected_events: LRU[list[FailureEvent]] = LRU(MAX_EXCHANGES)
        """By exchange: what is to be remembered of its guidance when the answer has left."""

        self._unfailing: LRU[bool] = LRU(MAX_EXCHANGES)
        """Exchanges of whose run the store knew no failure when they began."""

    def warm(self) -> None:
        """And compile what reads a conversation."""
        super().warm()
        warm()

    @classmethod
    def actions(cls, options: ReflectionOptions) -> tuple[Action, ...]:
        """Guidance is a note at the prompt's end; the rest is for the operator to ask for."""
        return (Action("ask", ASKED), Action("block", STOPPED)) if options.escalate_after is not None else ()

    @classmethod
    def judges(cls, options: ReflectionOptions) -> bool:
        """Of what wording alone says."""
        return bool({"tool_error", "human_correction"} & set(options.signals))

    @property
    def read_only(self) -> bool:
        """Where failures are for the record alone."""
        options = self.options
        return not (options.max_tokens or options.escalate_after is not None)

    # ---- the request ----

    def needs_run_identity(self, request: Request) -> bool:
        """What went wrong: where nothing is told, what an agent's tools do."""
        return bool(request.tools) or not self.read_only

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Read the conversation, remember, then stop or tell. Raises `PolicyBlocked`."""
        exchange.facts.failures_injected = 0
        try:
            reading = await self._read(exchange)
        except StoreUnavailable:
            return Verdict(self.name, "error", code=UNCHECKED, detail={"problem": "store_unavailable"})
        if (after := self.options.escalate_after) is not None:
            stuck = [record for record in reading.newest if not reading.history.still_varies(record.fingerprint, after)]
            stop = escalation(stuck, after, can_ask=exchange.wants.calls != "required")
            if stop is not None:
                return await self._stop(exchange, stop)
        shown, tokens = await self._inform(exchange, reading)
        again = any(record.occurrence_count > 1 for record in reading.newest)
        return Verdict(self.name, "unchecked", code=REPEATED if again else "", detail=detail_of(reading.newest, shown, tokens))

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        """Nothing was told."""
        if hook == "request":
            exchange.facts.failures_injected = 0

    async def _read(self, exchange: Exchange) -> _Situation:
        """Raises `StoreUnavailable`."""
        history = await self._history(exchange)
        events = [event for event in history.events if self._counts(event.failure)]
        if self.read_only and not events and key_of(*_owner(exchange)) not in self._failing_runs:
            return _Situation(history, [], [])
        situation, newest = await run_in_thread_if_large(exchange.original.quick_size, history.now)
        shown = dict.fromkeys(failure.fingerprint for failure in newest if self._counts(failure))
        fingerprints = list(dict.fromkeys([*shown, *situation.fingerprints]))
        subjects = list(dict.fromkeys([*situation.recent_tools, "", *situation.tools]))[:SUBJECTS]
        found = await self._apply_and_find(exchange, events, fingerprints, subjects)
        if len(found) < CANDIDATES and not any(record.run_id == exchange.run_id for record in found):
            self._unfailing.put(exchange.id, True)
        found = [record for record in found if record.signal_type in self.options.signals]
        own = [record for record in found if record.run_id == exchange.run_id]
        over = [*history.resolved(own), *superseded(own)]
        await self._apply(exchange, over)
        gone = {event.fingerprint for event in over}
        own = [record for record in own if record.fingerprint not in gone]
        recent = [record for record in own if record.fingerprint in shown or failures.is_of_answers(record)]
        return _Situation(history, [*own, *(record for record in found if record.run_id != exchange.run_id)], recent)

    async def _history(self, exchange: Exchange) -> FailureHistory:
        """With its events. In a thread where it is large: a schema's pattern, or 10,000 messages, may take their time."""
        patterns, tools, corrects = exchange.retrieval_tools, exchange.catalogue, "human_correction" in self.options.signals

        @cache
        def retrieves(tool: str) -> bool:
            return is_retrieval_tool(tool, patterns)

        def read() -> Reading:
            turns = turns_of(exchange, exchange.conversation)
            return read_conversation(turns, tools, retrieves, min_score=self.options.min_score, corrects=corrects)

        def made(reading: Reading) -> FailureHistory:
            found = history_of(reading, tools, retrieves)
            found.events  # noqa: B018 - worked out here, and kept
            return found

        size, judge = exchange.original.size * SENTENCES, self.ports.judge.session(exchange, self.name)
        if judge is None:
            return await run_in_thread_if_large(size, lambda: made(read()))
        reading = await run_in_thread_if_large(size, read)
        reading = await ask_judge(reading, tools, judge, corrects=corrects)
        return await run_in_thread_if_large(size, made, reading)

    def _counts(self, failure: Failure | None) -> bool:
        return failure is None or failure.signal_type in self.options.signals

    async def _inform(self, exchange: Exchange, reading: _Situation) -> tuple[list[FailureRecord], int]:
        """Put what matters into the prompt; the failures told, and the tokens that took."""
        options = self.options
        if not options.max_tokens or not reading.records:
            return [], 0
        model = self.ports.tokens.model(exchange.model)

        def count(text: str) -> int:
            return self.ports.tokens.count_text(text, model)

        chosen = select(reading.records, reading.history.situation, top_k=options.top_k, model=identifier(exchange.original.model))
        block, shown = await run_in_thread_if_large(0, wording.render, chosen, count, options.max_tokens)
        messages = wording.with_block(exchange.messages, block) if shown else None
        if messages is None:
            return [], 0
        exchange.messages = messages
        exchange.facts.failures_injected = len(shown)
        exchange.changes.append({"stage": self.name, "what": INJECTED, "failures": [listed(record) for record in shown]})
        events = [  # of one that was told since it last occurred nothing new is to be remembered
            FailureEvent(kind="injected", fingerprint=record.fingerprint, cause=f"told>{record.occurrence_count}")
            for record in shown
            if not record.guided
        ]
        self._injected_events.put(exchange.id, events)
        self.ports.counters.count("reflection.injected_count", len(shown))
        return shown, count(block)

    async def on_tool_result(self, exchange: Exchange, call: ToolCall, result: str, *, failed: bool) -> tuple[str, Verdict | None]:
        """Remember that a tool which the proxy calls itself has failed, or that what had failed works now: no conversation shows it."""
        called = CalledTool(call.id, call.name, call.arguments, -1, ToolResult(-1, result, failed), number=len(exchange.changes))
        retrieves = partial(is_retrieval_tool, patterns=exchange.retrieval_tools)
        found = await run_in_thread_if_large(
            len(result), failures.outcomes, [called], exchange.catalogue, retrieves, self.options.min_score
        )
        events = [failures.occurred(failure) for _, failure in found.failed if self._counts(failure)]
        try:
            if found.succeeded:
                known = await self.ports.failures.relevant(
                    client=exchange.client, run_id=exchange.run_id, fingerprints=(), subjects=(identifier(call.name),), limit=CANDIDATES
                )
                over = [record for record in known if record.action_key == called.key]
                events += [FailureEvent(kind="resolved", fingerprint=r.fingerprint, cause=f"{called.cause}>resolved") for r in over]
            await self._apply(exchange, events)
        except StoreUnavailable:
            return result, Verdict(self.name, "error", code=UNCHECKED, detail={"problem": "store_unavailable"})
        return result, None

    # ---- stopping ----

    async def _stop(self, exchange: Exchange, stop: Escalation) -> Verdict:
        """Answer with a question, or end the request with an error. Raises `PolicyBlocked`."""
        self.ports.counters.count(f"reflection.escalated_{stop.action}_count")
        record, tongue = stop.record, language(last_user_text(exchange.conversation))
        if failures.is_of_answers(record):  # nothing in the conversation can show progress: having stopped is what counts
            event = FailureEvent(kind="progress", fingerprint=record.fingerprint, cause=f"{exchange.id}>stopped")
            await self._quietly(exchange, [event])
        if stop.action == "system_error":
            raise PolicyBlocked(wording.refusal(record, tongue), param=STOPPED)
        choice = Choice(0, text=wording.question(record, tongue), finish_reason="stop")
        exchange.answer = Answer((choice,), model=exchange.original.model)
        return Verdict(self.name, "warn", code=ASKED, detail={"failure": listed(record)})

    # ---- the answer ----

    async def on_done(self, exchange: Exchange) -> None:
        """Remember what only the answer showed, and what was told."""
        events = self._pop_injected(exchange)
        choices = exchange.answer.choices if exchange.answer is not None else ()
        said = sum(LARGE if choice.tool_calls else len(choice.text) for choice in choices)  # a call is held against its schema
        size = SENTENCES * (exchange.original.size + said)
        events += [
            event
            for event in await run_in_thread_if_large(size, failures.answer_events, exchange, self.options.min_score)
            if self._counts(event.failure)
        ]
        failing = key_of(*_owner(exchange)) in self._failing_runs
        if self.read_only and not events and not failing:
            return
        if failing or self._unfailing.get(exchange.id) is None:
            found = await self.ports.failures.relevant(
                client=exchange.client, run_id=exchange.run_id, fingerprints=(), subjects=("", exchange.upstream), limit=CANDIDATES
            )
            events += failures.resolved_by_answer(found, events, exchange)
        await self._apply(exchange, events)

    async def on_failed(self, exchange: Exchange) -> None:
        """Remember that there was no answer, and why."""
        self._pop_injected(exchange)
        await self._apply(exchange, [event for event in failures.upstream_events(exchange) if self._counts(event.failure)])

    # ---- the store ----

    async def _apply(self, exchange: Exchange, events: Sequence[FailureEvent]) -> None:
        """Let those that this worker has not applied yet happen. Raises `StoreUnavailable`."""
        owner = _owner(exchange)
        new = [event for event in events if _key(owner, event) not in self._applied_events]
        if new:
            self._note(exchange, new, await self.ports.failures.apply(new, **_scene(exchange)))

    async def _apply_and_find(
        self, exchange: Exchange, events: Sequence[FailureEvent], fingerprints: Sequence[str], subjects: Sequence[str]
    ) -> list[FailureRecord]:
        """As `_apply`; then the records that matter to where the run stands. Raises `StoreUnavailable`."""
        owner, across_runs = _owner(exchange), self.options.scope == "client"
        new = [event for event in events if _key(owner, event) not in self._applied_events]
        about: dict[str, Any] = {"fingerprints": fingerprints, "subjects": subjects, "limit": max(CANDIDATES, 4 * self.options.top_k)}
        if not new:
            run_id = None if across_runs else exchange.run_id
            return await self.ports.failures.relevant(client=exchange.client, run_id=run_id, **about)
        records, found = await self.ports.failures.apply_and_find(new, **_scene(exchange), across_runs=across_runs, **about)
        self._note(exchange, new, records)
        return found

    def _note(self, exchange: Exchange, new: Sequence[FailureEvent], records: Sequence[FailureRecord]) -> None:
        """That they have happened."""
        owner = _owner(exchange)
        self._failing_runs.put(key_of(*owner), True)
        for event in new:
            self._applied_events.put(_key(owner, event), True)
        count_events(self.ports.counters, new, records, exchange.received_at)

    def _pop_injected(self, exchange: Exchange) -> list[FailureEvent]:
        """What its guidance is to be remembered by, once."""
        events = self._injected_events.get(exchange.id) or []
        self._injected_events.put(exchange.id, [])
        return list(events)

    async def _quietly(self, exchange: Exchange, events: Sequence[FailureEvent]) -> None:
        """As `_apply`; what cannot be kept is let go, since the stop comes first."""
        try:
            await self._apply(exchange, events)
        except StoreUnavailable:
            self.ports.counters.count("reflection.unkept_count")


def _owner(exchange: Exchange) -> tuple[str, str]:
    """Whose failures: client and run."""
    return (exchange.client, exchange.run_id)


def _scene(exchange: Exchange) -> dict[str, Any]:
    """Where its events happen, as the store is told."""
    where = {"client": exchange.client, "run_id": exchange.run_id, "policy": exchange.policy}
    return {**where, "step_id": exchange.step_id, "record_id": exchange.id}


def _key(owner: tuple[str, str], event: FailureEvent) -> int:
    return key_of(*owner, event.kind, event.fingerprint, event.cause)
