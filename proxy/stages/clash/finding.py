"""Which of the context's statements clash, and which of these clashes are certain: rules, and where the policy says so, the verifier.

Only pairs that were not compared before in this run are compared; that is remembered in this process, per client, run and policy; another
worker, or this one after a restart, compares once more and comes to the same. The verifier is asked about a bounded number of pairs, the
first of the request however much is known of them already: the same request has the same ones judged. What is left is said to be skipped.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange import Exchange
from proxy.grounding.clashes.detecting.candidates import Pair, candidates
from proxy.grounding.clashes.detecting.certainty import SaidSentence, is_certain
from proxy.grounding.clashes.detecting.detection import by_rule, judged, settled
from proxy.grounding.clashes.detecting.judging import ClashDetector
from proxy.grounding.clashes.detecting.questions import is_answered
from proxy.grounding.clashes.kinds import Statement, StatementClash
from proxy.grounding.judging.asking import key_of
from proxy.grounding.judging.options import make_verifier
from proxy.language.lru import LRU
from proxy.language.text import text_of
from proxy.offloop import LARGE, aside
from proxy.ports import Ports
from proxy.stages.clash.context import Spoken
from proxy.stages.clash.ledger import Ledger
from proxy.stages.clash.options import ClashOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger("groundwire.clash")

MAX_RUNS = 2048
"""Runs of which this process knows what was compared."""
MAX_SEEN = 4000
"""Statements of a run that are known to have been compared; of a longer one the oldest are compared again."""
MAX_INNOCENT = 50_000
"""Pairs that are known not to clash."""
SMALL = 40
"""Up to so many statements are paired on the event loop."""
BATCH = 16
"""Pairs that the verifier is asked about at a time, so that what is judged in time counts."""


_Place = tuple[int, int, int]


class FoundClashes(Struct, frozen=True):
    """A clash with the places of its statements."""

    clash: StatementClash
    older: Spoken
    newer: Spoken


class Pairs(Struct, frozen=True):
    """What came of comparing."""

    clashes: tuple[FoundClashes, ...] = ()
    """In the order of the newer statement."""
    judged: int = 0
    skipped: int = 0
    """Pairs that nobody judged: there were too many of them, or the time was up."""
    problem: str = ""
    """Why some pairs are still open: ``timeout``, ``verifier_unavailable``, ``not_judged``; the clashes count."""


class _Work(Struct):
    """What is found while the time lasts."""

    clashes: list[StatementClash] = []
    judged: int = 0
    skipped: int = 0
    problem: str = ""


class Finder:
    """Compares statements. One a stage."""

    def __init__(self, options: ClashOptions, ports: Ports) -> None:
        self._options, self._embedder = options, ports.embedder
        self._verifier = make_verifier(options, ports)
        topics = "|".join(re.escape(topic) for topic in options.critical_topics)
        self._critical = re.compile(rf"(?<!\w)(?:{topics})", re.I) if topics else None
        self._seen: LRU[dict[str, None]] = LRU(MAX_RUNS)
        """By run: keys of the statements that were compared with each other, the latest last."""
        self._innocent: LRU[bool] = LRU(MAX_INNOCENT)

    async def find(self, exchange: Exchange, ledger: Ledger, spoken: Sequence[Spoken], until: float) -> Pairs:
        """The clashes among the statements that still count, and of which one was not compared before.

        At `until`, in the event loop's time, what is still open is left for the next turn.
        """
        gone = ledger.gone
        standing = {one.statement.place: one for one in spoken if one.key not in gone}
        run = key_of(exchange.client, exchange.run_id, exchange.policy)
        seen = self._seen.get(run) or {}
        fresh = {one.key: None for one in standing.values() if one.key not in seen}
        if len(standing) < 2 or not (fresh or self._options.semantic):
            return Pairs()
        work = _Work()
        await self._by_rules(ledger, standing, fresh, work)
        try:
            if self._options.semantic:
                async with asyncio.timeout_at(until):
                    await self._by_verifier(exchange, ledger, standing, work)
        except TimeoutError:
            work.problem = "timeout"
        except ModelUnavailable as error:
            log.warning("statements cannot be compared: %s", error)
            work.problem = "verifier_unavailable"
        if not work.problem:
            self._seen.put(run, dict.fromkeys([one.key for one in standing.values()][-MAX_SEEN:]))
        return Pairs(tuple(self._told(exchange, ledger, standing, work.clashes)), work.judged, work.skipped, work.problem)

    async def _by_rules(self, ledger: Ledger, standing: Mapping[_Place, Spoken], fresh: Mapping[str, None], work: _Work) -> None:
        """What needs no model, first: it counts whatever becomes of the rest."""
        pairs = [pair for pair in await _pairs(ledger, standing, fresh) if settled(pair)]
        work.clashes += [clash for pair in pairs if (clash := by_rule(pair)) is not None and not _is_repeated_field(clash)]
        work.judged += len(pairs)

    async def _by_verifier(self, exchange: Exchange, ledger: Ledger, standing: Mapping[_Place, Spoken], work: _Work) -> None:
        """Everything else, the newest statements first. Raises `ModelUnavailable`."""
        statements = _last_times(standing)
        vectors = await self._embedder.embed([statement.text for statement in statements])
        everything = {one.key: None for one in standing.values()}
        pairs = [pair for pair in await _pairs(ledger, standing, everything, vectors, known=True) if not settled(pair)]
        pairs.sort(key=lambda pair: pair.newer.place, reverse=True)
        work.skipped = max(0, len(pairs) - self._options.max_pairs)
        open_ = [
            pair
            for pair in pairs[: self._options.max_pairs]
            if self._key(exchange, pair) not in self._innocent and not _is_known(ledger, standing, pair)
        ]
        for start in range(0, len(open_), BATCH):
            await self._ask(exchange, open_[start : start + BATCH], work)

    async def _ask(self, exchange: Exchange, pairs: Sequence[Pair], work: _Work) -> None:
        """Have the verifier judge some pairs. Raises `ModelUnavailable`."""
        detector = ClashDetector(self._verifier.for_client(exchange.client), embedder=self._embedder)
        said, cosines = await detector.ask(pairs)
        for pair in pairs:
            if not is_answered(pair.older, pair.newer, said):
                work.problem = work.problem or "not_judged"
                continue
            work.judged += 1
            clash = judged(pair, said, cosines)
            if clash is not None and clash.score >= self._options.min_score:
                work.clashes.append(clash)
            else:
                self._innocent.put(self._key(exchange, pair), True)

    def _key(self, exchange: Exchange, pair: Pair) -> bytes:
        return key_of(exchange.client, exchange.policy, self._verifier.name, pair.older.hash, pair.newer.hash)

    def _told(
        self, exchange: Exchange, ledger: Ledger, standing: Mapping[_Place, Spoken], clashes: Sequence[StatementClash]
    ) -> list[FoundClashes]:
        """The clashes in order, with what only the whole conversation tells of them."""
        found = []
        said = _said(exchange) if clashes else []
        for clash in sorted(clashes, key=lambda clash: (clash.newer.place, clash.older.place)):
            older, newer = standing[clash.older.place], standing[clash.newer.place]
            replied = ledger.replies.get(-1 if clash.newer.message is None else clash.newer.message, ())
            update = clash.update or any(entry.record.topic == clash.topic for entry in replied)
            critical = clash.critical or self._is_critical(clash)
            together = clash.simultaneous or _side_by_side(exchange, clash.older, clash.newer)
            told = replace(clash, update=update, critical=critical, simultaneous=together and not update)
            found.append(FoundClashes(replace(told, certain=self._is_certain(told, said)), older, newer))
        return found

    def _is_certain(self, clash: StatementClash, said: Sequence[SaidSentence]) -> bool:
        """Whether it can be acted on. Where the policy edits everything, so can a record that a tool gives anew, and what stands twice."""
        if is_certain(clash, said):
            return True
        if self._options.edits != "all":
            return False
        anew = clash.newer.slot.startswith("field:") and clash.newer.subject != "" and not clash.simultaneous
        return clash.type == "DUPLICATE_FACTS" or (anew and clash.newer.origin == clash.older.origin == "tool_result")

    def _is_critical(self, clash: StatementClash) -> bool:
        said = f"{clash.topic} {clash.older.text} {clash.newer.text}"
        return self._critical is not None and self._critical.search(said) is not None


def _said(exchange: Exchange) -> list[SaidSentence]:
    """What user and model have said, for what a clash of two statements depends on."""
    roles = ("user", "assistant")
    messages = [(i, message) for i, message in enumerate(exchange.conversation) if message.get("role") in roles]
    return [SaidSentence(i, text_of(message.get("content")), message.get("role") == "user") for i, message in messages]


def _last_times(standing: Mapping[_Place, Spoken]) -> list[Statement]:
    """The statements; of what is said twice the last time counts."""
    return list({one.statement.hash: one.statement for one in standing.values()}.values())


async def _pairs(
    ledger: Ledger,
    standing: Mapping[_Place, Spoken],
    fresh: Mapping[str, None],
    vectors: NDArray[np.float32] | None = None,
    *,
    known: bool = False,
) -> list[Pair]:
    """Pairs of which at least one statement is fresh; without `known` none of those that are known to clash."""
    statements = _last_times(standing)
    new = {one.statement.hash for one in standing.values() if one.key in fresh}
    seen = {statement.hash for statement in statements} - new
    work = partial(candidates, statements, seen=seen, vectors=vectors, by_words=vectors is not None)
    found = await aside(LARGE if len(statements) > SMALL else 0, work)
    found += _said_twice([one.statement for one in standing.values() if one.statement.hash in new])
    return found if known else [pair for pair in found if not _is_known(ledger, standing, pair)]


def _is_known(ledger: Ledger, standing: Mapping[_Place, Spoken], pair: Pair) -> bool:
    return ledger.known(standing[pair.older.place], standing[pair.newer.place])


def _said_twice(statements: Sequence[Statement]) -> list[Pair]:
    """What memories and passages say word by word more than once: each with the next."""
    same: dict[str, list[Statement]] = {}
    for statement in statements:
        if statement.origin in ("memory", "passage"):
            same.setdefault(statement.hash, []).append(statement)
    return [Pair(one, other, "same") for some in same.values() for one, other in pairwise(some)]


def _is_repeated_field(clash: StatementClash) -> bool:
    """A record that a tool gives twice has most of its fields twice."""
    return clash.type == "DUPLICATE_FACTS" and clash.newer.slot.startswith("field:")


def _side_by_side(exchange: Exchange, older: Statement, newer: Statement) -> bool:
    """Whether two results came in one step, with nothing said between them and no time told: neither is newer."""
    if older.message is None or newer.message is None or None not in (older.timestamp, newer.timestamp):
        return False
    between = exchange.conversation[min(older.message, newer.message) : max(older.message, newer.message) + 1]
    return all(message.get("role") in ("tool", "function") for message in between)
