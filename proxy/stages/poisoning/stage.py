"""The stage `poisoning`: what is false, or tells the model what to do, does not enter the context.

In: the conversation as the client sends it, in pieces. A piece on which the quarantine has a decision is treated by it: held or blocked
content is taken out (the failing statements, or all of it), approved content stays. A piece that is new is checked against the facts and
for hidden instructions; what the policy's rules keep from the model is put into the quarantine first, and then taken out, so that each
later turn and each other worker does the same. An answer that the grounding stage found false enters the quarantine as well, before its
end has left (under ``delivery: tap``, right after): the client cannot send it back before it is held.

What was checked and passed is remembered in this process, by client, policy, knowledge version and content: a long history costs what is
new. A check that could not run (no verifier, no knowledge base, no store, no time) is an ``error``, and `on_error` decides; what was
found until then is acted upon all the same. Without a knowledge base in the policy no statement is checked, and nothing counts as true or
false: hidden instructions and bad answers are still held, and an agent goes on working.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.conversation import answered_calls_of, unread_size
from proxy.context.edits import Edit, apply_edits, with_spans
from proxy.context.passages import is_retrieval_tool
from proxy.context.pieces import ContextPiece, PieceKind, content_hash, pieces_of
from proxy.errors import ModelUnavailable, StoreUnavailable
from proxy.exchange import Exchange, FactCheck, Request, ToolCall, Verdict, tool_name
from proxy.exchange.judgements import Claim, FactVerdict
from proxy.grounding.claims.claims import VALUES, read_content
from proxy.grounding.evidence.asserted import is_question
from proxy.language.lru import LRU, key_of
from proxy.offloop import Breather, each, run_in_thread_if_large
from proxy.ports import Ports, QuarantineItem
from proxy.ports.stage import Action, ActionKind, CounterFamily, Stage
from proxy.stages.poisoning.injection import InjectionFinding, detect
from proxy.stages.poisoning.phrases import prepare
from proxy.stages.poisoning.quarantine import edits_of, item_of, items_of
from proxy.stages.poisoning.report import COUNTERS, Outcome, PoisoningPanel, PoisoningRate, verdict_of_answer, verdicts_of, where
from proxy.stages.poisoning.rules import EXCLUDING, PieceDecision, PoisoningFinding, PoisoningOptions, decide, kind_of

log = logging.getLogger("groundwire.poisoning")

_DEADLINE = 0.85
"""Share of the stage's time after which what is not checked yet is an error, so that what was found is not lost."""
_BATCH = 8
"""Pieces that are checked together: what a batch has found stays found when the time is over."""
_CACHE_SIZE = 8192
"""Pieces whose check is remembered by a worker."""
_OWN_RESULT = -1
"""Stands for the message of a result that the proxy's own tools gave: the client's conversation has none."""
_EVERY_KIND: tuple[PieceKind, ...] = ("user", "assistant", "tool_result", "passage")
_KINDS: Mapping[str, ActionKind] = {"annotate": "warn", "quarantine": "quarantine", "block": "quarantine", "reject": "block"}
"""What the options' words are; ``block`` keeps content from the model until a person lets it in, and refuses nothing."""
_COUNTER_OF_ACTION = {"block": "blocked", "quarantine": "quarantined", "reject": "rejected", "annotate": "annotated"}
_TYPE_COUNTER = r"poisoning\.type_(\w+)_count"


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
        CounterFamily("groundwire_poisoning_types", "Poisoned pieces of context by what is wrong with them", "type", _TYPE_COUNTER),
    )
    panel = PoisoningPanel
    reports = ("poisoned_context", "context_quarantined", "context_suspicious", "answer_quarantined", "poisoning_unchecked")
    reads_passages = True
    retryable = frozenset(("poisoning_unchecked",))

    def __init__(self, options: PoisoningOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._keeps_out = any(action.kind in ("quarantine", "block") for action in self.actions(options))
        self._rate = PoisoningRate(options.alert_above)
        self._counted_pieces: LRU[bool] = LRU(_CACHE_SIZE)
        """Pieces that were counted, by run: the same falsehood in another run is another attempt."""
        self._checked_pieces: LRU[CheckedPiece] = LRU(_CACHE_SIZE)

    def warm(self) -> None:
        """And compile the patterns of instructions: some 200 ms."""
        super().warm()
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
        return () if options.on_low_confidence == "forward" else ("knowledge",)

    @property
    def read_only(self) -> bool:
        """Where it keeps nothing out."""
        return not self._keeps_out

    def needs_run_identity(self, request: Request) -> bool:
        """What it keeps out, where it does."""
        return self._keeps_out

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Treat every piece of the context by what is known of it, or is found now."""
        pieces = await run_in_thread_if_large(unread_size(exchange), pieces_of, exchange, _EVERY_KIND)
        outcome = Outcome(pieces=len(pieces))
        calls = await run_in_thread_if_large(exchange.original.quick_size, answered_calls_of, exchange)
        tools = {i: tool_name(call) for i, call in calls.items()}
        known = await self._known_items(exchange, pieces, outcome)
        states = exchange.knowledge is not None  # of what those in the conversation wrote, only what it states is checked
        kinds = [kind for kind in self.options.kinds if states or kind not in ("assistant", "user")]
        new = {piece.hash: piece for piece in pieces if piece.hash not in known and piece.kind in kinds}
        found = await self._check(exchange, list(new.values()), outcome)
        kept_out = await self._decide(exchange, new, found, tools, outcome)
        apply_edits(exchange, self.name, self._edits(pieces, known | kept_out, outcome))
        verdicts = verdicts_of(self.name, outcome)
        exchange.verdicts += verdicts[:-1]
        return verdicts[-1]

    async def on_tool_result(self, exchange: Exchange, call: ToolCall, result: str, *, failed: bool) -> tuple[str, Verdict | None]:
        """Treat what a tool from outside gave as a result that the client brings, before the model sees it."""
        if "tool_result" not in self.options.kinds or not result.strip():
            return result, None
        hash_ = content_hash(result, "tool_result")
        piece = ContextPiece("tool_result", result, hash_, _OWN_RESULT, "tool", end=len(result), source=call.name)
        outcome = Outcome(pieces=1)
        known = await self._known_items(exchange, [piece], outcome)
        new = {} if known else {piece.hash: piece}
        found = await self._check(exchange, list(new.values()), outcome)
        kept_out = await self._decide(exchange, new, found, {_OWN_RESULT: call.name}, outcome)
        edits = self._edits([piece], known | kept_out, outcome)
        if edits:
            result = str(with_spans({"content": result}, [(edit.start, edit.end, edit.text) for edit in edits])["content"])
        if not (outcome.items or outcome.new or outcome.error):
            return result, None
        verdicts = verdicts_of(self.name, outcome)
        exchange.verdicts += verdicts[:-1]
        return result, verdicts[-1]

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Keep an answer that was judged bad from coming back as history."""
        if self.options.answers == "none" or not exchange.judgements:
            return None
        outcome, stored = Outcome(), list[QuarantineItem]()
        for item in items_of(exchange, self.options.answers):
            stored.append(await self._put(exchange, item, outcome))
            self.ports.counters.count("poisoning.answers_count")
            log.info("%s: an answer judged false is kept from coming back as history: %s", exchange.id, stored[-1].id or "not kept")
        return verdict_of_answer(self.name, stored, outcome.error) if stored else None

    # ---- what is known ----

    async def _known_items(self, exchange: Exchange, pieces: Sequence[ContextPiece], outcome: Outcome) -> dict[str, QuarantineItem]:
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

    async def _check(self, exchange: Exchange, pieces: Sequence[ContextPiece], outcome: Outcome) -> dict[str, CheckedPiece]:
        """What is found of each piece, by hash, the newest first while there is time; those not reached are not in it."""
        until = time.perf_counter() + self.options.timeout_ms * _DEADLINE / 1000
        await self._read_version(exchange.knowledge, outcome)
        about = (exchange.client, exchange.policy, outcome.version)
        keys = await run_in_thread_if_large(
            exchange.original.quick_size, lambda: {piece.hash: key_of(*about, piece.hash) for piece in pieces}
        )
        found = {hash_: known for hash_, key in keys.items() if (known := self._checked_pieces.get(key)) is not None}
        open_ = [piece for piece in reversed(pieces) if piece.hash not in found]
        breather = Breather()
        for at in range(0, len(open_), _BATCH):
            left_s = until - time.perf_counter()
            if left_s <= 0:
                outcome.error = outcome.error or "timeout"
                break
            batch = open_[at : at + _BATCH]
            checks = await check(batch, exchange.knowledge, injections=self.options.injections != "ignore", deadline_s=left_s)
            for piece, checked in zip(batch, checks, strict=True):
                found[piece.hash] = checked
                if not checked.error:
                    self._checked_pieces.put(keys[piece.hash], checked)
            await breather.yield_if_due()
        outcome.looked = any(checked.looked for checked in found.values())
        outcome.unchecked = len(pieces) - len(found)
        outcome.error = outcome.error or next((why for one in found.values() if (why := one.error or one.left_out)), "")
        return found

    async def _read_version(self, facts: FactCheck | None, outcome: Outcome) -> None:
        """Of the knowledge base, as far as there is one."""
        try:
            if facts is not None:
                outcome.version = await facts.version()
            elif self.options.on_low_confidence != "forward":
                outcome.error = outcome.error or "knowledge_left_out"
        except ModelUnavailable as error:
            log.warning("the knowledge base cannot be asked: %s", error)
            outcome.error = outcome.error or "knowledge_unavailable"

    # ---- acting ----

    async def _decide(
        self,
        exchange: Exchange,
        pieces: Mapping[str, ContextPiece],
        found: Mapping[str, CheckedPiece],
        tools: Mapping[int, str],
        outcome: Outcome,
    ) -> dict[str, QuarantineItem]:
        """What the rules say of what was found; the items of what is kept from the model, by hash, in the quarantine if it can be."""
        kept_out: dict[str, QuarantineItem] = {}
        away, breather = False, Breather()
        for hash_, piece in pieces.items():
            await breather.yield_if_due()
            if (checked := found.get(hash_)) is None:
                continue
            tool = tools.get(piece.message, "") if piece.message is not None else ""
            outside = checked.injection is None or not is_retrieval_tool(tool, self.options.file_tools)
            decision = decide(checked.findings, checked.injection, self.options, outside=outside)
            self._count(exchange, piece, decision, outcome)
            if decision.action == "pass":
                continue
            outcome.new.append((piece, decision))
            if decision.action in EXCLUDING:
                item = item_of(exchange, piece, decision, checked.injection, tool)
                kept_out[hash_] = stored = item if away else await self._put(exchange, item, outcome)
                away = not stored.id  # one wait for a store that does not answer is enough
                log.info("%s: %s kept from the model (%s): %s", exchange.id, where(piece), stored.type, stored.id or "not in the store")
        return kept_out

    def _count(self, exchange: Exchange, piece: ContextPiece, decision: PieceDecision, outcome: Outcome) -> None:
        """Count one piece that is new in its run."""
        key = key_of(exchange.client, exchange.policy, exchange.run_id, piece.hash)
        if self._counted_pieces.get(key):
            return
        self._counted_pieces.put(key, True)
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
            count(f"poisoning.{_COUNTER_OF_ACTION[decision.action]}_count")

    async def _put(self, exchange: Exchange, item: QuarantineItem, outcome: Outcome) -> QuarantineItem:
        """What the quarantine has of it: another worker's decision, if that was first. Without the store the item itself."""
        try:
            return await self.ports.quarantine.put(item)
        except StoreUnavailable as error:
            log.warning("%s: a decision could not be kept: %s", exchange.id, error)
            outcome.error = "store_unavailable"
            return item

    def _edits(self, pieces: Sequence[ContextPiece], items: Mapping[str, QuarantineItem], outcome: Outcome) -> list[Edit]:
        """What takes out what is held or blocked."""
        edits: list[Edit] = []
        for piece in pieces:
            if (item := items.get(piece.hash)) is not None:
                outcome.items.append((piece, item))
                edits += edits_of(piece, item.detail) if item.status != "approved" else ()
        return edits


# ---- new pieces ----
#
# New pieces of the context -> what was found of each: their statements by the facts, their text by the injection detector.
#
# In: pieces that nothing is known of yet. Out: a `CheckedPiece` for each. What they state is read by `proxy.grounding.claims.claims`, and
# the facts are asked once for all of a batch. What could not be asked is an ``ERROR``, never a pass.

TOGETHER = 48
"""Statements asked about at a time: the verifier takes no more than 512 pairs from all that wait for it, and each has up to four."""
MAX_CLAIMS = 200
"""Statements judged of one piece; the rest of a longer one is an error, not a pass."""
_OUTSIDE = ("tool_result", "passage")
"""Kinds that nobody in the conversation wrote: only they are searched for instructions."""


class CheckedPiece(Struct, frozen=True):
    """What was found of a piece."""

    findings: tuple[PoisoningFinding, ...] = ()
    injection: InjectionFinding | None = None
    error: str = ""
    """Why some of it was not checked: not to be remembered."""
    left_out: str = ""
    """Why some of it will never be checked: the next turn finds the same."""

    @property
    def looked(self) -> bool:
        """Whether there was anything to check it by."""
        return self.injection is not None or any(finding.status != "UNKNOWN" for finding in self.findings)


class _ReadPiece(Struct, frozen=True):
    """A piece, and what it says."""

    piece: ContextPiece
    claims: Sequence[Claim]
    language: str
    injection: InjectionFinding | None


async def check(pieces: Sequence[ContextPiece], facts: FactCheck | None, *, injections: bool, deadline_s: float) -> list[CheckedPiece]:
    """One for each piece, in order. Past `deadline_s` what is open is an ``ERROR``; without `facts` no statement is read."""
    until = time.perf_counter() + deadline_s
    read = await run_in_thread_if_large(sum(len(piece.text) for piece in pieces), _read, pieces, facts is not None, injections)
    chosen = [one.claims[:MAX_CLAIMS] for one in read]
    verdicts = iter(await _verify([claim for claims in chosen for claim in claims], read, facts, until))
    found = []
    for one, claims in zip(read, chosen, strict=True):
        findings = tuple(_finding(one, claim, next(verdicts)) for claim in claims)
        error = next((finding.reason or "not_judged" for finding in findings if finding.status == "ERROR"), "")
        left_out = f"more than {MAX_CLAIMS} statements" if len(one.claims) > MAX_CLAIMS else ""
        found.append(CheckedPiece(findings, one.injection, error, left_out))
    return found


def _read(pieces: Sequence[ContextPiece], states: bool, injections: bool) -> list[_ReadPiece]:
    """The statements of each piece, of the user's words not what asks, and the instructions in it."""
    found = []
    for piece in each(pieces):
        content = read_content(piece.text) if states else None
        claims = content.claims if content is not None else ()
        if piece.kind == "user":
            claims = tuple(claim for claim in claims if not is_question(claim.text))
        injection = detect(piece.text) if injections and piece.kind in _OUTSIDE else None
        found.append(_ReadPiece(piece, claims, content.language if content is not None else "", injection))
    return found


async def _verify(claims: Sequence[Claim], read: Sequence[_ReadPiece], facts: FactCheck | None, until: float) -> list[FactVerdict]:
    """By the facts."""
    if facts is None:
        return []
    tongues = {one.language for one in read if one.claims}
    tongue = tongues.pop() if len(tongues) == 1 else ""  # else it is found for each statement
    found: list[FactVerdict] = []
    for at in range(0, len(claims), TOGETHER):
        texts = [claim.text for claim in claims[at : at + TOGETHER]]
        found += await facts.verify_many(texts, tongue=tongue, deadline_s=max(0.0, until - time.perf_counter()))
    return found


def _finding(read: _ReadPiece, claim: Claim, verdict: FactVerdict) -> PoisoningFinding:
    """A fact's word on a statement."""
    finding = PoisoningFinding(
        read.piece.text[claim.start : claim.end], claim.start, claim.end, verdict.status, verdict.confidence, reason=verdict.reason
    )
    if claim.reason == VALUES and verdict.status == "SUSPICIOUS":
        return replace(finding, status="UNKNOWN", confidence=0.0)
    if verdict.status not in ("INVALID", "SUSPICIOUS"):
        return finding
    contradicted = verdict.status == "INVALID"
    conflict = (str(verdict.detail.get("conflict", "")), str(verdict.detail.get("differs", "")))
    known = None if claim.reason == VALUES else conflict  # names in a record are read by `kind_of` alone
    kind = kind_of(claim.text, verdict.correct_fact, contradicted=contradicted, language=read.language or "en", conflict=known)
    return replace(
        finding,
        kind="outdated" if verdict.reason == "outdated" else kind,
        correct_fact=verdict.correct_fact,
        source=str(verdict.detail.get("fact_source") or verdict.source),
        negation=contradicted and conflict[0] == "negation",
    )
