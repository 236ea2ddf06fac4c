"""What waits for a person, or was decided by one: content in quarantine, and statements that contradict each other.

Part of `proxy.ports`, which gives these names out: stages put them, `proxy.store.quarantine` and `proxy.store.clashes` keep them, and
`proxy.admin` shows them to the operator, who decides. An entry belongs to one client, one run and one policy and is never used for
another client. A policy may be named by its label, ``NAME@hash8``: what counts is NAME, so that a decision outlives an edit of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

QuarantineStatus = Literal["pending", "approved", "rejected"]
ClashStatus = Literal["open", "resolved", "dismissed"]
Scope = Literal["run", "client"]
POLICY = "policy"
"""Who decides where a stage does; any person's decision comes before it, so no person may go by this name."""


class Decision(Struct, frozen=True, kw_only=True):
    """One entry of the audit trail: it is never changed, and a later decision stands beside it."""

    number: int
    """Counts a subject's decisions from 1."""
    decision: str
    scope: Scope
    decided_at: float
    decided_by: str
    reason: str


class QuarantineItem(Struct, frozen=True, kw_only=True):
    """Content that is kept from the model. The fields from `id` on are the store's to fill."""

    client: str
    run_id: str
    policy: str
    """Its name: the store cuts the hash off a label."""
    hash: str
    """Of the content, as the stage tells two contents apart; one item a client, run, policy and hash."""
    kind: str
    """``system``, ``user``, ``assistant``, ``tool_result`` or ``passage``."""
    role: str
    type: str
    """What is wrong with it: ``wrong_location``, ``invented_date``, ``injected_instruction``, …"""
    reason: str
    """In words, for the person who decides."""
    content: bytes = b""
    """As it came, byte for byte; empty in lists."""
    status: QuarantineStatus = "pending"
    """A stage may put an item that is decided already: ``rejected`` for what is known to be false. Approving it later lets it in."""
    score: float | None = None
    """How sure the check was, 0 to 1."""
    source: str = ""
    """Where it came from: a tool's name, a passage's source."""
    record_id: str = ""
    """Of the exchange in which it was first seen."""
    detail: Mapping[str, Any] = {}
    """The rest, for the operator to read: claims, evidence, spans. JSON values."""
    decided_by: str = ""
    """Empty while nobody has; ``policy`` where a stage put it decided."""
    decision_reason: str = ""
    id: str = ""
    """``qr_`` and 32 hexadecimal digits."""
    size_bytes: int = 0
    """Of the content."""
    created_at: float = 0.0
    """Seconds since the epoch, as all times here."""
    seen_at: float = 0.0
    """When it was last put, or asked for (to within an hour); retention goes by it."""
    seen_count: int = 0
    """How often it was put, counted once a minute at most."""
    decided_at: float | None = None
    scope: Scope = "run"
    """Of the decision: ``client`` decides the same content in the client's other runs of this policy too."""
    version: int = 0
    """Counts the decisions."""


class Quarantine(Protocol):
    """Keeps content from the model until a person decides; implemented in `proxy.store.quarantine`."""

    async def put(self, item: QuarantineItem) -> QuarantineItem:
        """Keep `item`, and return what is kept, decided or not: an earlier one of the same client, run, policy and hash comes first.

        Raises `StoreUnavailable` when it could not be kept.
        """

    async def find(self, hashes: Sequence[str], *, client: str, run_id: str, policy: str) -> dict[str, QuarantineItem]:
        """What is known of these contents, by hash and without the bytes: of this run, else what was decided for the client's runs.

        The newest decision counts. Raises `StoreUnavailable`.
        """


class ClashRecord(Struct, frozen=True, kw_only=True):
    """Two statements that contradict each other. The fields from `id` on are the store's to fill."""

    client: str
    run_id: str
    policy: str
    """Its name: the store cuts the hash off a label."""
    pair_hash: str
    """Of the two statements; one record a client, run, policy and pair."""
    type: str
    """``CONTRADICTORY_PREFERENCES``, ``CONFLICTING_FACTS``, ``OUTDATED_INFORMATION`` or ``DUPLICATE_FACTS``."""
    topic: str
    """What both speak of: ``budget``, ``location``, …"""
    strategy: str
    """``prefer_recent``, ``ask_user`` or ``merge``."""
    critical: bool = False
    status: ClashStatus = "open"
    """A stage may put a clash that is resolved already."""
    resolution: str = ""
    """``keep_older``, ``keep_newer``, ``keep_both`` or ``merged``; empty while it is open, or where it was dismissed."""
    reason: str = ""
    """Of the resolution, in words; while it is open, of the clash."""
    older: Mapping[str, Any] = {}
    """``hash``, ``message``, ``start``, ``end``, ``text`` of the earlier statement. JSON values."""
    newer: Mapping[str, Any] = {}
    options: tuple[str, ...] = ()
    """What a person can choose from, where one is asked."""
    merged: str = ""
    """The statement that takes the place of both."""
    resolved_by: str = ""
    """``policy``, ``user``, or an operator's name."""
    record_id: str = ""
    """Of the exchange in which it was first found."""
    detail: Mapping[str, Any] = {}
    """The rest, for the stage and the operator to read. JSON values."""
    id: str = ""
    """``cl_`` and 32 hexadecimal digits."""
    created_at: float = 0.0
    """Seconds since the epoch, as all times here."""
    seen_at: float = 0.0
    """When it was last put, or asked for (to within an hour); retention goes by it."""
    resolved_at: float | None = None
    version: int = 0
    """Counts the resolutions."""


class Clashes(Protocol):
    """Remembers clashes and how they were resolved; implemented in `proxy.store.clashes`."""

    async def put(self, record: ClashRecord) -> ClashRecord:
        """Keep `record`, and return what is kept: an earlier one of the same client, run, policy and pair comes first.

        Raises `StoreUnavailable`.
        """

    async def find(self, *, client: str, run_id: str, policy: str) -> list[ClashRecord]:
        """The run's clashes, in the order in which they were put. Raises `StoreUnavailable`."""

    async def resolve(
        self,
        record_id: str,
        resolution: str,
        *,
        client: str,
        by: str,
        reason: str = "",
        merged: str = "",
        version: int | None = None,
    ) -> ClashRecord | None:
        """Resolve the client's clash (``dismiss`` for none), and return what is kept; None where there is no such clash.

        With `version`, only if the record still has it: another worker's resolution, or a person's, is then left as it is and
        returned. Raises `StoreUnavailable`.
        """
