"""A run's clashes as the store keeps them, beside the statements of the present conversation. Pure.

A record counts while both its statements stand in the conversation, in the order in which they clashed: a client that forgets one of them
has no clash any more, and one that says the older one again begins a new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Exchange
from proxy.grounding.clashes.kinds import Resolution, Statement, StatementClash
from proxy.ports import ClashRecord
from proxy.stages.clash.context import PlacedStatement
from proxy.stages.clash.resolution import ClashQuestion, question

POLICY = "policy"
USER = "user"
_DROPPED_SIDES: Mapping[str, tuple[str, ...]] = {"keep_newer": ("older",), "keep_older": ("newer",), "merged": ("older", "newer")}
_RESOLUTION_OF_STRATEGY = {"prefer_recent": "keep_newer", "merge": "merged"}
MAX_TEXT_CHARS = 1000
"""A record shows a statement up to here; what it is known by is its hash."""


class LedgerEntry(Struct, frozen=True):
    """A record with its statements."""

    record: ClashRecord
    older: PlacedStatement
    newer: PlacedStatement
    earlier: tuple[PlacedStatement, ...] = ()
    """Where the conversation has said before what one of the two says, word by word."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has decided."""
        return self.record.status == "open"

    @property
    def acts(self) -> bool:
        """Whether anything is done about it: the policy acts on what is certain only, a person on what they like."""
        return bool(self.record.detail.get("certain")) or self.record.resolved_by not in ("", POLICY)

    @property
    def was_put(self) -> bool:
        """Whether the user was, or will be, asked."""
        return len(self.record.options) == 3

    @property
    def leaving(self) -> tuple[PlacedStatement, ...]:
        """The statements that no longer count, whether or not they stand where something can be taken out."""
        if not self.acts:
            return ()
        return tuple(self.older if side == "older" else self.newer for side in _DROPPED_SIDES.get(self.record.resolution, ()))

    @property
    def lost(self) -> tuple[PlacedStatement, ...]:
        """Of those that leave, the ones that say nothing any more: the newer one of two that were merged speaks for both."""
        merged = self.record.resolution == "merged" and self.record.resolved_by != USER
        return (self.older,) if merged else self.leaving

    @property
    def echoes(self) -> tuple[PlacedStatement, ...]:
        """What leaves with them: the same, said before."""
        hashes = {one.statement.hash for one in self.leaving}
        return tuple(one for one in self.earlier if one.statement.hash in hashes)

    @property
    def stays(self) -> frozenset[str]:
        """Keys of those that the policy left where they were when it decided; so they are left on every turn."""
        staying = self.record.detail.get("stays", ()) if self.record.resolved_by == POLICY else ()
        return frozenset(side.key for name, side in (("older", self.older), ("newer", self.newer)) if name in staying)

    @property
    def question(self) -> ClashQuestion:
        """What the user is asked; the same on every turn."""
        tongue = str(self.record.detail.get("language", ""))
        return question(self.older.statement, self.newer.statement, tongue, self.record.options)


class Ledger:
    """The entries of one exchange."""

    def __init__(self, spoken: Sequence[PlacedStatement], records: Iterable[ClashRecord]) -> None:
        self._statements = {one.key: one for one in spoken}
        self._places = {one.statement.place: one for one in spoken}
        self._same: dict[str, list[PlacedStatement]] = {}
        for one in spoken:
            self._same.setdefault(one.statement.hash, []).append(one)
        self._records: dict[str, ClashRecord] = {}
        self._entries: list[LedgerEntry] | None = None
        self._dropped_keys: frozenset[str] | None = None
        self.replies: dict[int, list[LedgerEntry]] = {}
        """By the position of a user message: what it replies to."""
        for record in records:
            self.put(record)

    def put(self, record: ClashRecord) -> None:
        """Add a record, or replace it by what is kept of it now."""
        self._records[record.pair_hash] = record
        self._entries = self._dropped_keys = None

    @property
    def entries(self) -> list[LedgerEntry]:
        """Those that count, in the order in which they were found."""
        if self._entries is None:
            self._entries = [entry for record in self._records.values() if (entry := self._entry(record)) is not None]
        return self._entries

    def known(self, older: PlacedStatement, newer: PlacedStatement) -> bool:
        """Whether these two were found to clash before, or one is the user's reply to what they were asked about the other."""
        asked = self.replies.get(newer.statement.message if newer.statement.message is not None else -1, ())
        return pair_key(older, newer) in self._records or any(older in (entry.older, entry.newer) for entry in asked)

    def at(self, statement: Statement) -> PlacedStatement:
        """A statement of the conversation where it stands."""
        return self._places[statement.place]

    @property
    def gone(self) -> frozenset[str]:
        """Keys of the statements that no longer count: what contradicts them contradicts nothing."""
        if self._dropped_keys is None:
            self._dropped_keys = frozenset(one.key for entry in self.entries for one in (*entry.lost, *entry.echoes))
        return self._dropped_keys

    @property
    def open(self) -> list[LedgerEntry]:
        """The entries that nobody has decided, and that are not settled by what became of another."""
        gone = self.gone
        return [entry for entry in self.entries if entry.is_open and not gone & {entry.older.key, entry.newer.key}]

    def _entry(self, record: ClashRecord) -> LedgerEntry | None:
        if record.status == "dismissed":
            return None
        older, newer = self._statements.get(_key(record.older)), self._statements.get(_key(record.newer))
        if older is None or newer is None or (older.statement.place < newer.statement.place) != bool(record.detail.get("in_order", True)):
            return None
        earlier = [one for side in (older, newer) for one in self._same[side.statement.hash][: side.number - 1]]
        return LedgerEntry(record, older, newer, tuple(earlier))


def pair_key(older: PlacedStatement, newer: PlacedStatement) -> str:
    """What a record is found by."""
    return hashlib.blake2b(f"{older.key}\0{newer.key}".encode(), digest_size=16).hexdigest()


def record_of(
    exchange: Exchange,
    clash: StatementClash,
    sides: tuple[PlacedStatement, PlacedStatement],
    done: Resolution,
    strategy: str,
    language: str,
) -> ClashRecord:
    """A clash of `sides`, the older and the newer, that was just found, as it is to be kept."""
    older, newer = sides
    stays = [name for name, side in (("older", older), ("newer", newer)) if side.locked]
    return ClashRecord(
        client=exchange.client,
        run_id=exchange.run_id,
        policy=exchange.policy,
        pair_hash=pair_key(older, newer),
        type=clash.type,
        topic=clash.topic[:100],
        strategy=strategy,
        critical=clash.critical,
        status="resolved" if done.resolved else "open",
        resolution=_resolution(done),
        reason=done.reason,
        older=_side(older),
        newer=_side(newer),
        options=done.options,
        merged=done.text,
        resolved_by=POLICY if done.resolved else "",
        record_id=exchange.id,
        detail={
            "language": language,
            "in_order": older.statement.place < newer.statement.place,
            "stays": stays,
            "clash": clash.reason[:300],
            "score": round(clash.score, 4),
            "update": clash.update,
            "certain": clash.certain,
        },
    )


def _resolution(done: Resolution) -> str:
    if not done.resolved:
        return ""
    return "keep_both" if not done.dropped else _RESOLUTION_OF_STRATEGY.get("merge" if done.text else "prefer_recent", "")


def _side(one: PlacedStatement) -> dict[str, Any]:
    said = one.statement
    return {
        "hash": said.hash,
        "number": one.number,
        "origin": said.origin,
        "message": said.message,
        "start": one.piece.start + said.start,
        "end": one.piece.start + said.end,
        "text": said.text[:MAX_TEXT_CHARS],
        "source": said.source,
    }


def _key(side: Mapping[str, Any]) -> str:
    return f"{side.get('hash')}#{side.get('number', 1)}"
