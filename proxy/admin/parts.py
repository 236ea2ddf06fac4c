"""What the operator's surface is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from proxy.admin.dashboard.overview import FailuresOfRun
from proxy.admin.verdicts import ClientAccess
from proxy.config.client_keys import Clients
from proxy.ledger import Ledger
from proxy.observe.metrics import Metrics
from proxy.observe.recording import OpenExchanges
from proxy.ports.panels import StagePanel
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.store.database import Database
from proxy.store.records import Records
from proxy.wire.http.headers import ResponseHeaders


@dataclass(slots=True, frozen=True)
class AdminParts:
    """What the operator's surface shows, and who may see it."""

    admin_key: str
    database: Database
    records: Records
    metrics: Metrics
    ready: Callable[[], dict[str, str]]
    """What keeps this node from answering, and why; empty when nothing does."""
    store_problem: Callable[[], Awaitable[str]]
    """Why the store takes nothing now; "" where it does."""
    ledger: Ledger = field(default_factory=Ledger)
    """Counts wrong keys."""
    failures_of_run: FailuresOfRun | None = None
    """A run's failure records, for its time line; None for those of the database."""
    stages: Sequence[type[Stage]] = STAGES
    """Those whose panels and headers are shown, in this order."""
    routes: tuple[str, ...] = ()
    """Prefixes that clients can call."""
    shadow: tuple[str, ...] = ()
    """Routes whose policy is not enforced."""
    bodies: bool = False
    """Whether texts are kept."""
    access: ClientAccess = field(default_factory=lambda: ClientAccess(Clients(())))
    """How a client that asks for its own verdict is known."""
    exchanges: OpenExchanges = field(default_factory=OpenExchanges)
    """Those of this process that have no record yet."""

    @property
    def headers(self) -> ResponseHeaders:
        """Of answers."""
        return ResponseHeaders(header for stage in self.stages for header in stage.headers)

    @property
    def panels(self) -> tuple[type[StagePanel], ...]:
        """Of the dashboard."""
        return panels_of(self.stages)


def panels_of(stages: Sequence[type[Stage]]) -> tuple[type[StagePanel], ...]:
    """Of each name one."""
    return tuple({stage.panel.name: stage.panel for stage in stages if stage.panel is not None}.values())
