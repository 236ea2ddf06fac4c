"""The stage `clash`: statements of the context that contradict each other are found; of those that certainly do, one counts from then on.

What is certain is `clashes.detecting.certainty`'s; every other clash is reported, in the record and the store, and nothing is
done about it. Before whatever forwards the conversation in other words, on the client's whole history, each turn. Only pairs that were not
judged before are judged; what was decided of one is in the store, so that every worker takes out the same sentence, or adds the same note,
on every turn. The user is asked by an answer of the proxy's own; the client sends question and reply back with its next turn, where they
are read. What a person decides over HTTP counts from the next turn on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from proxy.context.conversation import last_user, last_user_text
from proxy.context.edits import Edit, apply_edits
from proxy.errors import StoreUnavailable
from proxy.exchange import Answer, Choice, Exchange, Request, Verdict
from proxy.grounding.clashes.detector import DetectedClashes
from proxy.grounding.clashes.kinds import Resolution, TextPiece
from proxy.grounding.clashes.reading import read_statements
from proxy.language.detection import language
from proxy.language.lru import LRU, key_of
from proxy.ports import ClashRecord, Ports
from proxy.ports.stage import Action, Stage, StageHeader, count_text
from proxy.stages.clash.acting import (
    ASKED,
    COUNTERS,
    FAMILIES,
    FOUND,
    NOTE,
    NOTED,
    REMOVED,
    SKIPPED,
    UNCHECKED,
    UNRESOLVED,
    ClashActions,
    ClashPanel,
    Note,
    codes_of,
    count_answered,
    count_asked,
    count_found,
    detail_of,
    edits_of,
    notes_of,
    with_notes,
)
from proxy.stages.clash.context import Context, ContextStatements
from proxy.stages.clash.finding import MAX_RUNS, Finder
from proxy.stages.clash.ledger import USER, Ledger, LedgerEntry, record_of
from proxy.stages.clash.options import ClashOptions
from proxy.stages.clash.resolution import Dialogue, dialogue_about, is_task, may_ask, resolve_clash

_RESOLUTIONS = {"older": "keep_older", "newer": "keep_newer", "both": "keep_both"}
"""What the user's reply means for the record."""
_DEADLINE = 0.8
"""Share of the stage's time after which pairs that are still open wait for the next turn."""
STORE_AWAY = "store_unavailable"
DOUBTFUL = "not certain: only reported, because {}"
MAX_REPORTED = 16
"""Clashes of a run that are kept though nothing is done about them; where there are more, the conversation is about such things."""
_WARMING = [TextPiece("I live in Berlin and I never eat meat, but my budget is 100 € for the hotel on 5 May at 9 am.")]
"""Reading it compiles the patterns (0.2 s), so that no request waits for it."""


class Clash(Stage[ClashOptions]):
    """Finds statements that contradict each other; where that is certain the newer one counts, or what the user says, or both in one."""

    name = "clash"
    Options = ClashOptions
    follows = ("budget", "knowledge", "validation", "poisoning")
    changes = ("messages", "passages", "answer")
    counters = COUNTERS
    families = FAMILIES
    headers = (StageHeader("clashes", "clashes found", lambda facts, _: count_text(facts.clashes)),)
    panel = ClashPanel
    reports = (REMOVED, NOTED, ASKED, UNRESOLVED, UNCHECKED, FOUND, SKIPPED)
    retryable = frozenset((UNCHECKED,))
    reads_passages = True

    def __init__(self, options: ClashOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._finder = Finder(options, ports.embedder, ports.verifiers.get(ports.judge.local_model), ports.judge)
        self._context = Context(options.between)
        self._reported_runs: LRU[bool] = LRU(MAX_RUNS)
        """Runs of which a clash was found, where nothing is done about it: what the store knows of them counts on every turn."""
        self._notes: dict[str, list[Note]] = {}
        """By exchange, until it is over."""

    def warm(self) -> None:
        """And compile the patterns of statements."""
        super().warm()
        read_statements(_WARMING)

    @classmethod
    def local_models(cls, options: ClashOptions) -> tuple[bool, bool]:
        """Both by an option."""
        return options.semantic, options.semantic

    @classmethod
    def actions(cls, options: ClashOptions) -> tuple[Action, ...]:
        """Of clashes that are certain: a statement leaves, or a note steers the model (both change the prompt), or the user is asked, under
        `prefer_recent` of two memories of which neither is newer. With ``edits: none``, nothing.
        """
        if options.edits == "none":
            return ()
        asking = (Action("ask", ASKED),) if options.max_asked else ()
        return (Action("edit", REMOVED), Action("edit", NOTED), *asking, Action("warn", UNRESOLVED))

    @classmethod
    def judges(cls, options: ClashOptions) -> bool:
        """Where more than rules decide."""
        return options.semantic

    @property
    def read_only(self) -> bool:
        """Where it does nothing about what it finds."""
        return self.options.edits == "none"

    def needs_run_identity(self, request: Request) -> bool:
        """What was decided, where anything is done about it."""
        return self.options.edits != "none"

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Carry out what is decided, judge what is new, and ask where only the user can tell."""
        until = asyncio.get_running_loop().time() + self.options.timeout_ms / 1000 * _DEADLINE
        stated = await self._context.stated(exchange)
        if not stated.spoken:
            exchange.facts.clashes = 0
            return Verdict(self.name, "pass", code=SKIPPED, detail={"skipped": stated.skipped}) if stated.skipped else None
        if self.options.edits == "none":
            return await self._report(exchange, stated, until)
        try:
            records = await self._records(exchange)
        except StoreUnavailable:
            return Verdict(self.name, "error", code=UNCHECKED, detail={"problem": STORE_AWAY, "statements": len(stated.spoken)})
        ledger = Ledger(stated.spoken, records)
        try:
            await self._apply_replies(exchange, ledger)
            pairs = await self._finder.find(exchange, ledger, stated.spoken, until)
            if pairs.clashes:
                await self._settle(exchange, ledger, pairs)
                await self._apply_replies(exchange, ledger)
        except StoreUnavailable:
            pairs = DetectedClashes(problem=STORE_AWAY)
        return self._carry_out(exchange, ledger, pairs, stated)

    async def _report(self, exchange: Exchange, stated: ContextStatements, until: float) -> Verdict:
        """Find, and keep for a person to see, without doing anything about it. A run without a clash costs the store nothing."""
        ledger = Ledger(stated.spoken, ())
        pairs = await self._finder.find(exchange, ledger, stated.spoken, until)
        run = key_of(exchange.client, exchange.run_id, exchange.policy)
        if pairs.clashes or run in self._reported_runs:
            self._reported_runs.put(run, True)
            try:
                ledger = Ledger(stated.spoken, await self._records(exchange))
                await self._settle(exchange, ledger, pairs)
            except StoreUnavailable:
                pairs = DetectedClashes(problem=STORE_AWAY)
        return self._carry_out(exchange, ledger, pairs, stated)

    async def _records(self, exchange: Exchange) -> Sequence[ClashRecord]:
        """What is known of the run's clashes. Raises `StoreUnavailable`."""
        return await self.ports.clashes.find(client=exchange.client, run_id=exchange.run_id, policy=exchange.policy)

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """Add the notes, when every stage has read what the user said."""
        messages = with_notes(exchange.messages, exchange.conversation, self._notes.get(exchange.id, ()))
        if messages is not None:
            exchange.messages = messages
        return None

    def release(self, exchange: Exchange) -> None:
        """Let go of its notes."""
        self._notes.pop(exchange.id, None)

    # ---- deciding ----

    async def _apply_replies(self, exchange: Exchange, ledger: Ledger) -> None:
        """Read the user's replies to what they were asked. Raises `StoreUnavailable`."""
        for entry in ledger.entries:
            heard = _dialogue(exchange, entry) if entry.was_put else Dialogue(0)
            if heard.reply is None or heard.message is None:
                continue
            ledger.replies.setdefault(heard.message, []).append(entry)
            if not entry.is_open:
                continue
            await self._apply_reply(ledger, entry.record, _RESOLUTIONS[heard.reply])

    async def _apply_reply(self, ledger: Ledger, record: ClashRecord, resolution: str) -> None:
        kept = await self.ports.clashes.resolve(
            record.id, resolution, client=record.client, by=USER, reason="the user was asked", version=record.version
        )
        if kept is None:
            return
        if kept.version == record.version + 1 and kept.resolved_by == USER:
            count_answered(self.ports.counters, kept)
        ledger.put(kept)

    async def _settle(self, exchange: Exchange, ledger: Ledger, pairs: DetectedClashes) -> None:
        """Resolve what is new, as far as the policy can. Raises `StoreUnavailable`."""
        now, tongue = exchange.received_at, language(last_user_text(exchange.conversation), default="")
        options = self.options
        room = MAX_REPORTED - sum(not entry.acts for entry in ledger.entries)
        for clash in pairs.clashes:
            room -= not clash.certain
            if not clash.certain and room < 0:
                continue
            sides = ledger.at(clash.older), ledger.at(clash.newer)
            if ledger.gone & {one.key for one in sides}:  # one has lost to a third just now
                continue
            spoken = tongue or clash.newer.language
            special = options.critical_strategy if not clash.update else None  # what was said as a change is never asked about
            done = resolve_clash(clash, options.strategy, now=now, critical_strategy=special, language=spoken)
            if not clash.certain:
                done = Resolution("keep_existing", (clash.older, clash.newer), (), DOUBTFUL.format(clash.doubt), resolved=False)
            chosen = (special if clash.critical else None) or options.strategy
            strategy = chosen if done.strategy == "keep_existing" else done.strategy
            record = await self.ports.clashes.put(record_of(exchange, clash, sides, done, strategy, spoken))
            if record.record_id == exchange.id:
                count_found(self.ports.counters, record)
            ledger.put(record)

    # ---- acting ----

    def _carry_out(self, exchange: Exchange, ledger: Ledger, pairs: DetectedClashes, stated: ContextStatements) -> Verdict:
        entries, open_ = ledger.entries, ledger.open
        edits, notes = ([], []) if self.options.edits == "none" else self._changes(entries)
        removed = apply_edits(exchange, self.name, edits, note=NOTE)
        exchange.facts.clashes = len(entries)
        asked = self._ask(exchange, open_, stated)
        if notes and not asked:
            self._notes[exchange.id] = notes
            exchange.changes.append({"stage": self.name, "what": "note", "notes": len(notes)})
        done = ClashActions(
            asked=asked,
            removed=len(edits) if removed else 0,
            noted=0 if asked else len(notes),
            open=sum(entry.acts for entry in open_),
            skipped=stated.skipped + pairs.skipped,
            problem=pairs.problem,
            insists=self.options.on_error == "closed",
        )
        (outcome, code), *more = codes_of(entries, done)
        if outcome == "pass" and not (pairs.judged or entries):
            outcome = "unchecked"
        exchange.verdicts += [Verdict(self.name, also, code=other) for also, other in more]
        return Verdict(self.name, outcome, code=code, detail=detail_of(entries, len(stated.spoken), pairs.judged, done))

    def _changes(self, entries: Sequence[LedgerEntry]) -> tuple[list[Edit], list[Note]]:
        """What the decisions take out, and what is said of those that take nothing out."""
        return edits_of(entries, self.options.edits), notes_of(entries, self.options.edits)

    def _asks_for(self, entry: LedgerEntry) -> bool:
        """Whether the policy itself has the user asked about such a clash."""
        special = self.options.critical_strategy if entry.record.critical else None
        return (special or self.options.strategy) == "ask_user"

    def _ask(self, exchange: Exchange, entries: Sequence[LedgerEntry], stated: ContextStatements) -> bool:
        """Answer in the model's stead with a question, one at a time, the critical ones first; whether that was done.

        A message that is a task of its own is answered, unless the policy says that the user is asked.
        """
        if self.options.edits == "none" or not entries or not may_ask(exchange):
            return False
        if is_task(*_last_request(exchange, stated)):
            entries = [entry for entry in entries if self._asks_for(entry)]
        for entry in sorted((entry for entry in entries if entry.was_put), key=lambda entry: not entry.record.critical):
            if _dialogue(exchange, entry).times < self.options.max_asked and _can_reply(exchange, entry):
                choice = Choice(0, text=entry.question.text, finish_reason="stop")
                exchange.answer = Answer((choice,), model=exchange.original.model)
                count_asked(self.ports.counters, entry.record)
                return True
        return False


def _last_request(exchange: Exchange, stated: ContextStatements) -> tuple[str, list[str]]:
    """The last user message, and what is plainly stated in it: a request that names a value is none of it."""
    last = last_user(exchange.conversation)
    said = (one.statement for one in stated.spoken)
    return last_user_text(exchange.conversation), [
        one.text for one in said if one.message == last and one.origin == "user" and one.declares
    ]


def _can_reply(exchange: Exchange, entry: LedgerEntry) -> bool:
    """Whether the client keeps what it is answered, as far as can be told: otherwise the user would be asked on every turn."""
    return entry.record.record_id == exchange.id or any(message.get("role") == "assistant" for message in exchange.conversation)


def _dialogue(exchange: Exchange, entry: LedgerEntry) -> Dialogue:
    return dialogue_about(exchange.conversation, entry.question)
