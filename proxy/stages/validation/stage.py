"""The stage `validation`: is what enters the context good enough to rest on?

Every new piece (tool results, passages, messages of a memory, or whatever the policy names) is measured by relevance, freshness,
accuracy, completeness and consistency (`proxy.stages.validation.quality`). What falls below a threshold is reported, ranked behind the rest
or marked, left out with a note in its place, or refused with the request.

A client sends its whole history again on each turn. What was marked or left out once is so again, in the same words, by every worker: a
piece is judged by what stood before it (`content`), and its age is that at which the run first showed it. So the forwarded prefix stays
the same. The same text in a later message is a newcomer of its own, and so is a passage of the request itself on each turn: a cached
result grows stale. A request is refused only for what came with it: what is behind an assistant's answer has been let through.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from proxy.context.conversation import unread_size
from proxy.context.edits import apply_edits
from proxy.context.lineage import prefix_hashes
from proxy.errors import ModelUnavailable, StoreUnavailable
from proxy.exchange import Evidence, Exchange, FactCheck, Request, Verdict
from proxy.grounding.evidence.gathering import EvidenceBase, gather
from proxy.language.lru import LRU, key_of
from proxy.offloop import Breather, run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.stage import Action, ActionKind, Stage
from proxy.stages.validation.content import Newcomer, context_before, newcomers
from proxy.stages.validation.quality import METRICS, Quality, ValidationOptions, failed, quality_of
from proxy.stages.validation.report import (
    CODES,
    COUNTERS,
    REJECTED,
    UNCHECKED,
    QualityDecision,
    action_of,
    detail_of,
    edits_of,
    ranked,
    rejection,
    verdicts_of,
)
from proxy.stages.validation.validator import Models, validate

_DEADLINE = 0.9
"""Share of the stage's time after which what is still open is an error, so that what was found is not lost."""
MAX_PIECES = 256
"""Of one turn that are looked at; those beyond it are an error."""
_CACHE_SIZE = 4096
"""Pieces whose quality is remembered by a worker."""
_KINDS: Mapping[str, ActionKind] = {"annotate": "warn", "down_rank": "edit", "drop": "edit", "reject": "block"}


class Validation(Stage[ValidationOptions]):
    """Checks new content before the model sees it; annotates, ranks it lower, drops or rejects it."""

    name = "validation"
    Options = ValidationOptions
    follows = ("knowledge",)
    changes = ("messages", "passages")
    counters = COUNTERS
    reports = (*CODES.values(), UNCHECKED, REJECTED)
    reads_passages = True
    verifies = True
    retryable = frozenset((UNCHECKED,))
    embeds = True

    def __init__(self, options: ValidationOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._verifier = ports.verifiers.get(ports.judge.local_model)
        self._cache: LRU[Quality] = LRU(_CACHE_SIZE)
        self._archive_ids: LRU[str] = LRU(_CACHE_SIZE)

    @classmethod
    def actions(cls, options: ValidationOptions) -> tuple[Action, ...]:
        """By metric, where the policy chose one."""
        return tuple(Action(kind, code) for name, code in CODES.items() if (kind := _KINDS.get(options.action_for(name))) is not None)

    @property
    def read_only(self) -> bool:
        """Where it does nothing about what it finds."""
        return not self.options.changes_context and not self.options.rejects

    def needs_run_identity(self, request: Request) -> bool:
        """What it left out or ranked lower, where it does."""
        return self.options.changes_context

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Measure what is new, act on it, repeat what was done on earlier turns."""
        size = unread_size(exchange)
        found = await run_in_thread_if_large(size, newcomers, exchange, self.options, older=self.options.changes_context)
        if not found:
            return None
        seen, store = await self._first_seen(exchange, found)
        decisions = await self._decide(exchange, found, seen)
        refused = next((d for d in decisions if d.newcomer.new and d.action == "reject"), None)
        if refused is None:
            decisions, unkept = await self._archive_dropped(exchange, decisions)
            store = store or unkept
        self._count(decisions)
        detail = await run_in_thread_if_large(size, detail_of, decisions, store)
        if refused is not None:
            return rejection(refused, detail)
        self._act(exchange, decisions)
        *others, last = verdicts_of(decisions, detail, lambda name: self.options.action_for(name) != "note")
        exchange.verdicts += others
        return last

    # ---- when each came ----

    async def _first_seen(self, exchange: Exchange, found: Sequence[Newcomer]) -> tuple[dict[str, float], str]:
        """When this run first showed each piece that has a timestamp, by name, and what is wrong with the store, if anything."""
        names = [n.shown_as for n in found if n.shown_as and n.candidate.content.timestamp is not None]
        if not names:
            return {}, ""
        run = f"{exchange.route}\0{exchange.run_id}\0{self.name}"
        try:
            times = await self.ports.first_seen.times(run, names, exchange.received_at, client=exchange.client)
        except StoreUnavailable as error:
            new = [n.shown_as for n in found if n.new]
            return dict.fromkeys(new, exchange.received_at), str(error)
        return dict(zip(names, times, strict=True)), ""

    # ---- judging ----

    async def _decide(self, exchange: Exchange, found: Sequence[Newcomer], seen: Mapping[str, float]) -> list[QualityDecision]:
        """Turn by turn, as they came: what was left out on one is no context for the next."""
        until = time.perf_counter() + self.options.timeout_ms * _DEADLINE / 1000
        size, by_turn = unread_size(exchange), dict[int, list[Newcomer]]()
        for newcomer in found:
            by_turn.setdefault(newcomer.turn, []).append(newcomer)
        turns = sorted(by_turn)
        prefixes, version = (
            await run_in_thread_if_large(exchange.original.quick_size, prefix_hashes, exchange.conversation, turns),
            await _version(exchange.knowledge),
        )
        evidence: list[Evidence] | None = None
        dropped: frozenset[str] = frozenset()
        decisions: list[QualityDecision] = []
        breather = Breather()
        for turn in turns:
            here = by_turn[turn]
            keys = await run_in_thread_if_large(exchange.original.quick_size, _keys, exchange, here, prefixes[turn], version)
            open_ = [i for i, key in enumerate(keys) if key not in self._cache][:MAX_PIECES]
            qualities = {i: known for i, key in enumerate(keys) if (known := self._cache.get(key)) is not None}
            if open_:
                evidence = await run_in_thread_if_large(size, gather, exchange) if evidence is None else evidence
                base = await run_in_thread_if_large(size, context_before, turn, evidence, dropped)
                qualities |= await self._measure(exchange, {i: here[i] for i in open_}, base, seen, until - time.perf_counter())
            unseen = _not_looked_at(f"more than {MAX_PIECES} pieces")
            for i, newcomer in enumerate(here):
                await breather.yield_if_due()
                quality = qualities.get(i) or unseen
                if not quality.errors and newcomer.shown_as:  # what is named by no message grows older
                    self._cache.put(keys[i], quality)
                decisions.append(QualityDecision(newcomer, quality, action_of(quality, self.options)))
            dropped |= {d.newcomer.piece.text.strip() for d in decisions if d.action == "drop"}
        return decisions

    async def _measure(
        self, exchange: Exchange, newcomers: Mapping[int, Newcomer], base: EvidenceBase | None, seen: Mapping[str, float], left_s: float
    ) -> dict[int, Quality]:
        options = self.options
        judge = self.ports.judge.session(exchange, self.name)
        models = Models(self.ports.embedder, self._verifier, exchange.knowledge, judge)
        candidates = [replace(n.candidate, existing=base) for n in newcomers.values()]
        times = [seen.get(n.shown_as, exchange.received_at) for n in newcomers.values()]
        found = await validate(
            candidates,
            times,
            models,
            thresholds=options.thresholds,
            max_age_s=options.max_age_s,
            min_contradiction=options.min_contradiction,
            deadline_s=max(0.0, left_s),
        )
        for i, newcomer in enumerate(newcomers.values()):
            if newcomer.shown_as and newcomer.candidate.content.timestamp is not None and newcomer.shown_as not in seen:
                found[i] = quality_of({**found[i].findings, "freshness": failed("store_unavailable")}, options.thresholds)
        return dict(zip(newcomers, found, strict=True))

    # ---- acting ----

    async def _archive_dropped(self, exchange: Exchange, decisions: Sequence[QualityDecision]) -> tuple[list[QualityDecision], str]:
        """Archive what is to be dropped; what cannot be kept stays in the context. Returns what is wrong with the store, too."""
        found, problem = list(decisions), ""
        for i, decision in enumerate(decisions):
            if decision.action != "drop":
                continue
            try:  # one wait for a store that does not answer is enough
                archived = "" if problem else await self._archive(exchange, decision.newcomer)
            except StoreUnavailable as error:
                archived, problem = "", str(error)
            found[i] = replace(decision, archived=archived) if archived else replace(decision, action="annotate")
        return found, problem

    async def _archive(self, exchange: Exchange, newcomer: Newcomer) -> str:
        """The scratchpad's id of a piece, byte for byte."""
        key = key_of(exchange.client, exchange.run_id, newcomer.piece.text)
        known = self._archive_ids.get(key)
        if known is None:
            content = newcomer.piece.text.encode("utf-8", "surrogatepass")
            known = await self.ports.scratchpad.put(content, client=exchange.client, run_id=exchange.run_id)
            self._archive_ids.put(key, known)
        return known

    def _act(self, exchange: Exchange, decisions: Sequence[QualityDecision]) -> None:
        apply_edits(exchange, self.name, edits_of(decisions))
        passages = ranked(exchange.passages, decisions)
        if [id(passage) for passage in passages] != [id(passage) for passage in exchange.passages]:
            exchange.passages = passages
            exchange.changes.append({"stage": self.name, "what": "passages", "order": "down-ranked last"})

    def _count(self, decisions: Sequence[QualityDecision]) -> None:
        """Of what is new."""
        new = [decision for decision in decisions if decision.newcomer.new]
        self.ports.counters.count("validation.checked_count", len(new))
        for name in (*METRICS, "score"):
            if number := sum(name in decision.quality.failing for decision in new):
                self.ports.counters.count(f"validation.{name}_failed_count", number)
        for action in ("down_rank", "drop", "reject"):
            if number := sum(decision.action == action for decision in new):
                self.ports.counters.count(f"validation.{action}_count", number)


async def _version(knowledge: FactCheck | None) -> str:
    """Of the knowledge base: a newer one judges anew."""
    if knowledge is not None:
        with suppress(ModelUnavailable):
            return await knowledge.version()
    return ""


def _keys(exchange: Exchange, newcomers: Sequence[Newcomer], *known: str) -> list[int]:
    """For each a name for all that its quality follows from, but the policy."""
    found = []
    for one in newcomers:
        content = one.candidate.content
        about = (str(content.timestamp), str(content.max_age_s), *content.required_fields, repr(content.fields))
        asked = (*one.candidate.questions, *content.purposes)
        found.append(key_of(exchange.client, exchange.run_id, one.piece.hash, *known, *asked, *about))
    return found


def _not_looked_at(why: str) -> Quality:
    metrics = {name: failed(why) for name in METRICS}
    return replace(quality_of(metrics), reasons=(f"not checked: {why}",))
