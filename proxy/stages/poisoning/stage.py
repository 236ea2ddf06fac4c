"""The stage `poisoning`: what is false, or tells the model what to do, does not enter the context.

In: the conversation as the client sends it, in pieces. A piece on which the quarantine has a decision is treated by it: held or blocked
content is taken out (the failing statements, or all of it), approved content stays. A piece that is new is checked against the facts and
for hidden instructions; what the policy's rules keep from the model is put into the quarantine first, and then taken out, so that each
later turn and each other worker does the same. An answer that the grounding stage found false enters the quarantine as well, before its
end has left (under ``delivery: tap``, right after): the client cannot send it back before it is held.

What was checked and passed is remembered in this process, by client, policy, knowledge version and content: a long history costs what is
new. A check that could not run (no verifier, no knowledge base, no store, no time) is an ``error``, and `on_error` decides; what was
found until then is acted upon all the same. Without any knowledge base in the policy no statement is checked, and nothing counts as true or
false: hidden instructions and bad answers are still held, and an agent goes on working.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from proxy.context.edits import Edit, apply_edits
from proxy.context.passages import is_retrieval_tool
from proxy.context.pieces import ContextPiece, PieceKind, content_hash, pieces_of
from proxy.errors import ModelUnavailable, StoreUnavailable
from proxy.exchange import Exchange, FactCheck, Request, Verdict
from proxy.grounding.evidence.gathering import gather
from proxy.grounding.judging.grounder import Grounder
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.language.detection import load
from proxy.language.lru import LRU, key_of
from proxy.offloop import Breather, run_in_thread_if_large
from proxy.ports import Ports, QuarantineItem
from proxy.ports.stage import Action, ActionKind, CounterFamily, Stage
from proxy.stages.poisoning.answers import items_of
from proxy.stages.poisoning.checking import CheckedPiece, Checker
from proxy.stages.poisoning.decisions import PieceDecision, decide
from proxy.stages.poisoning.injections.injection import prepare
from proxy.stages.poisoning.options import PoisoningOptions
from proxy.stages.poisoning.panel import PoisoningPanel
from proxy.stages.poisoning.rate import PoisoningRate
from proxy.stages.poisoning.remembering import HELD, edits_of, item_of, tools_of
from proxy.stages.poisoning.reporting import COUNTERS, HeldBack, Outcome, of_answer, verdicts_of, where

log = logging.getLogger("groundwire.poisoning")

_DEADLINE = 0.85
"""Share of the stage's time after which what is not checked yet is an error, so that what was found is not lost."""
_BATCH = 8
"""Pieces that are checked together: what a batch has found stays found when the time is over."""
_EVERY_KIND: tuple[PieceKind, ...] = ("user", "assistant", "tool_result", "passage")
_KINDS: Mapping[str, ActionKind] = {"annotate": "warn", "quarantine": "quarantine", "block": "quarantine", "reject": "block"}
"""What the options' words are; ``block`` keeps content from the model until a person lets it in, and refuses nothing."""
_COUNTERS = {
    "block": "poisoning.blocked_count",
    "quarantine": "poisoning.quarantined_count",
    "reject": "poisoning.rejected_count",
    "annotate": "poisoning.annotated_count",
}


class Poisoning(Stage[PoisoningOptions]):
    """Blocks or quarantines false content and hidden instructions before they enter the context."""

    name = "poisoning"
    Options = PoisoningOptions
    follows = ("knowledge", "validation")
    changes = ("messages", "passages")
    answers_after = ("schema", "claims", "citations", "confidence")
    answers_with = ("claims",)
    counters = COUNTERS
    families = (
        CounterFamily(
            "groundwire_poisoning_types",
            "Poisoned pieces of context by what is wrong with them",
            "type",
            r"poisoning\.type_(\w+)_count",
        ),
    )
    panel = PoisoningPanel
    reports = (
        "poisoned_context",
        "context_quarantined",
        "context_suspicious",
        "answer_quarantined",
        "poisoning_unchecked",
    )
    reads_passages = True
    verifies = True
    retryable = frozenset(("poisoning_unchecked",))

    def __init__(self, options: PoisoningOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self.embeds = bool(options.knowledge)
        self._verifier = ports.verifiers.get(ports.judge.local_model)
        self._base = ports.knowledge.get(options.knowledge) if options.knowledge else None
        self._rules = options.rules
        self._keeps_out = any(action.kind in ("quarantine", "block") for action in self.actions(options))
        self._rate = PoisoningRate(options.alert_above)
        self._counted: LRU[bool] = LRU(options.cache_size)
        """Pieces that were counted, by run: the same falsehood in another run is another attempt."""
        self._known: LRU[CheckedPiece] = LRU(options.cache_size)

    def warm(self) -> None:
        """Read the model that tells languages, and compile the patterns of instructions: some 200 ms."""
        load()
        prepare()

    @classmethod
    def actions(cls, options: PoisoningOptions) -> tuple[Action, ...]:
        """What becomes of instructions in what is read, and of false and doubtful statements."""
        found: list[Action] = []
        for code, action in (
            ("hidden_instruction", options.injections),
            ("false_statement", options.on_invalid),
            ("inexact_statement", options.on_inexact),
            ("doubtful_statement", options.on_suspicious),
            ("low_confidence", options.on_low_confidence),
        ):
            if kind := _KINDS.get(action):
                found.append(Action(kind, code))
        if options.injections not in ("ignore", "annotate"):
            found.append(Action("warn", "hidden_instruction"))  # of what is likely and not certain
        return (*found, *((Action("quarantine", "answer_quarantined"),) if options.answers != "none" else ()))

    @classmethod
    def needs(cls, options: PoisoningOptions) -> tuple[str, ...]:
        """Somebody must know what is true where everything else is refused."""
        return () if options.on_low_confidence == "forward" or options.knowledge else ("knowledge",)

    @classmethod
    def folders(cls, options: PoisoningOptions) -> Mapping[str, str]:
        """The folder of facts, where it has its own."""
        return {"knowledge": options.knowledge} if options.knowledge else {}

    @property
    def read_only(self) -> bool:
        """Where it keeps nothing out."""
        return not self._keeps_out

    def needs_run_identity(self, request: Request) -> bool:
        """What it keeps out, where it does."""
        return self._keeps_out

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Treat every piece of the context by what is known of it, or is found now."""
        pieces = await run_in_thread_if_large(exchange.original.size, pieces_of, exchange, _EVERY_KIND)
        outcome = Outcome(pieces=len(pieces))
        tools = await run_in_thread_if_large(exchange.original.size, tools_of, exchange.conversation)
        decided = await self._decided(exchange, pieces, outcome)
        kinds = self._kinds(exchange)
        open_ = [piece for piece in pieces if piece.hash not in decided and piece.kind in kinds]
        new = {piece.hash: piece for piece in open_}
        found = await self._checked(exchange, list(new.values()), decided, tools, outcome)
        held = await self._held(exchange, new, found, tools, outcome)
        self._take_out(exchange, pieces, decided | held, outcome)
        verdicts = verdicts_of(self.name, outcome)
        exchange.verdicts += verdicts[:-1]
        return verdicts[-1]

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Keep an answer that was judged bad from coming back as history."""
        if self.options.answers == "none" or not exchange.judgements:
            return None
        outcome, held = Outcome(), list[QuarantineItem]()
        for item in items_of(exchange, self.options.answers):
            kept = await self._keep(exchange, item, outcome)
            held.append(kept)
            self.ports.counters.count("poisoning.answers_count")
            log.info("%s: an answer judged false is kept from coming back as history: %s", exchange.id, kept.id or "not kept")
        return of_answer(self.name, held, outcome.error) if held else None

    # ---- what is known ----

    async def _decided(self, exchange: Exchange, pieces: Sequence[ContextPiece], outcome: Outcome) -> dict[str, QuarantineItem]:
        """The quarantine's items of these pieces, by hash."""
        hashes = list(dict.fromkeys(piece.hash for piece in pieces))
        if not hashes or not self._keeps_out:
            return {}
        try:
            return await self.ports.quarantine.find(hashes, client=exchange.client, run_id=exchange.run_id, policy=exchange.policy)
        except StoreUnavailable as error:
            log.warning("%s: the quarantine cannot be asked: %s", exchange.id, error)
            outcome.error = "store_unavailable"
            return {}

    # ---- what is new ----

    async def _checked(
        self,
        exchange: Exchange,
        pieces: Sequence[ContextPiece],
        decided: Mapping[str, QuarantineItem],
        tools: Mapping[int, str],
        outcome: Outcome,
    ) -> dict[str, CheckedPiece]:
        """What is found of each piece, by hash, the newest first while there is time; those not reached are not in it."""
        until = time.perf_counter() + self.options.timeout_ms * _DEADLINE / 1000
        facts = self._facts(exchange)
        version = await self._version(facts, outcome)
        keys = await run_in_thread_if_large(exchange.original.size, self._keys, exchange, pieces, version)
        found = {hash_: known for hash_, key in keys.items() if (known := self._known.get(key)) is not None}
        open_ = [piece for piece in reversed(pieces) if piece.hash not in found]
        checker = await run_in_thread_if_large(exchange.original.size, self._checker, exchange, facts, decided) if open_ else None
        breather = Breather()
        for at in range(0, len(open_), _BATCH):
            left_s = until - time.perf_counter()
            if left_s <= 0 or checker is None:
                outcome.error = outcome.error or "timeout"
                break
            batch = open_[at : at + _BATCH]
            for piece, checked in zip(batch, await checker.check(batch, left_s), strict=True):
                found[piece.hash] = checked
                if not checked.error:
                    self._known.put(keys[piece.hash], checked)
            await breather.yield_if_due()
        for piece in pieces:
            await breather.yield_if_due()
            if piece.hash in found:
                self._count(exchange, piece, found[piece.hash], tools, outcome)
        outcome.looked = any(checked.looked for checked in found.values())
        outcome.unchecked = sum(piece.hash not in found for piece in pieces)
        problems = (checked.error or checked.left_out for checked in found.values())
        outcome.error = outcome.error or next((problem for problem in problems if problem), "")
        return found

    def _kinds(self, exchange: Exchange) -> tuple[PieceKind, ...]:
        """Of the pieces that there is something to check for: of what those in the conversation wrote, only what it states."""
        judges = "tool_results" in self.options.against or self._facts(exchange) is not None
        return tuple(kind for kind in self.options.kinds if judges or kind not in ("assistant", "user"))

    def _facts(self, exchange: Exchange) -> FactCheck | None:
        """Who knows what is so: the stage's own knowledge base, or the policy's."""
        if "knowledge" not in self.options.against:
            return None
        if self._base is None:
            return exchange.knowledge
        judge = self.ports.judge.session(exchange, self.name)
        return KnowledgeChecker(self._base, self._verifier, min_contradiction=self.options.min_contradiction, judge=judge)

    async def _version(self, facts: FactCheck | None, outcome: Outcome) -> str:
        if facts is None:
            if self.options.on_low_confidence != "forward":
                outcome.error = outcome.error or "knowledge_left_out"
            return ""
        try:
            outcome.version = await facts.version()
        except ModelUnavailable as error:
            log.warning("the knowledge base cannot be asked: %s", error)
            outcome.error = outcome.error or "knowledge_unavailable"
        return outcome.version

    def _checker(self, exchange: Exchange, facts: FactCheck | None, decided: Mapping[str, QuarantineItem]) -> Checker:
        looks = self.options.injections != "ignore"
        if "tool_results" not in self.options.against:
            return Checker(facts, None, (), looks, self.options.max_claims)
        judge = self.ports.judge.session(exchange, self.name)
        least = self.options.min_contradiction
        grounder = Grounder(self._verifier, min_contradiction=least, judge=judge, only_related=True)
        held = {hash_ for hash_, item in decided.items() if item.status != "approved"}
        trusted = [evidence for evidence in gather(exchange) if content_hash(evidence.content, evidence.kind) not in held]
        return Checker(facts, grounder, trusted, looks, self.options.max_claims)

    def _keys(self, exchange: Exchange, pieces: Sequence[ContextPiece], version: str) -> dict[str, bytes]:
        return {piece.hash: self._key(exchange, piece, version) for piece in pieces}

    def _key(self, exchange: Exchange, piece: ContextPiece, version: str) -> bytes:
        """A name for all that a finding follows from: what a statement is judged by may also be what stands before it."""
        told = "tool_results" in self.options.against and piece.kind in ("assistant", "user")
        place = (exchange.run_id, str(piece.message)) if told else ("", "")
        return key_of(exchange.client, exchange.policy, version, piece.hash, *place)

    def _count(self, exchange: Exchange, piece: ContextPiece, checked: CheckedPiece, tools: Mapping[int, str], outcome: Outcome) -> None:
        """Count one piece that is new in its run."""
        key = key_of(exchange.client, exchange.policy, exchange.run_id, piece.hash)
        if self._counted.get(key):
            return
        self._counted.put(key, True)
        decision = self._decide(piece, checked, tools)
        count, poisoned = self.ports.counters.count, decision.action not in ("pass", "note")
        outcome.checked += 1
        count("poisoning.checked_count")
        if self._rate.add(poisoned):
            log.warning(
                "%.0f%% of the last pieces of context were poisoned (alert_above %g)", self._rate.rate * 100, self.options.alert_above
            )
            count("poisoning.alerts_count")
        if poisoned:
            count("poisoning.attempts_count")
            count(f"poisoning.type_{decision.kind}_count")
            count(_COUNTERS[decision.action])

    def _decide(self, piece: ContextPiece, checked: CheckedPiece, tools: Mapping[int, str]) -> PieceDecision:
        outside = checked.injection is None or not is_retrieval_tool(_tool(piece, tools), self.options.file_tools)
        return decide(checked.findings, checked.injection, self._rules, outside=outside)

    # ---- acting ----

    async def _held(
        self,
        exchange: Exchange,
        pieces: Mapping[str, ContextPiece],
        found: Mapping[str, CheckedPiece],
        tools: Mapping[int, str],
        outcome: Outcome,
    ) -> dict[str, QuarantineItem]:
        """What the rules say of what was found; the items of what is kept from the model, by hash, in the quarantine if it can be."""
        held: dict[str, QuarantineItem] = {}
        away, breather = False, Breather()
        for hash_, checked in found.items():
            await breather.yield_if_due()
            piece = pieces[hash_]
            decision = self._decide(piece, checked, tools)
            if decision.action == "pass":
                continue
            outcome.new.append(HeldBack(piece, decision))
            if decision.action in HELD:
                threshold = self.options.min_injection_score
                item = item_of(exchange, piece, decision, checked.injection, threshold, _tool(piece, tools))
                held[hash_] = kept = item if away else await self._keep(exchange, item, outcome)
                away = not kept.id  # one wait for a store that does not answer is enough
                log.info("%s: %s kept from the model (%s): %s", exchange.id, where(piece), kept.type, kept.id or "not in the store")
        return held

    async def _keep(self, exchange: Exchange, item: QuarantineItem, outcome: Outcome) -> QuarantineItem:
        """What the quarantine has of it: another worker's decision, if that was first. Without the store the item itself."""
        try:
            return await self.ports.quarantine.put(item)
        except StoreUnavailable as error:
            log.warning("%s: a decision could not be kept: %s", exchange.id, error)
            outcome.error = "store_unavailable"
            return item

    def _take_out(self, exchange: Exchange, pieces: Sequence[ContextPiece], items: Mapping[str, QuarantineItem], outcome: Outcome) -> None:
        """Take what is held or blocked out of the conversation."""
        edits: list[Edit] = []
        for piece in pieces:
            item = items.get(piece.hash)
            if item is None:
                continue
            outcome.items.append((piece, item))
            if item.status != "approved":
                edits += edits_of(piece, item.detail, self.options.marker, self.options.note)
        apply_edits(exchange, self.name, edits, note=self.options.note)


def _tool(piece: ContextPiece, tools: Mapping[int, str]) -> str:
    """The name of the tool whose result a piece is, or stands in; "" for any other."""
    return tools.get(piece.message, "") if piece.message is not None else ""
