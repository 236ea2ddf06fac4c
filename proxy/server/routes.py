"""What a request meets: a route with its upstream and its policies, and what every exchange uses. Made once, by `proxy.app`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.config.access import Clients, PathRules
from proxy.config.settings import Api, ServerSettings
from proxy.ledger import Ledger
from proxy.observe.metrics import Metrics
from proxy.observe.recording import Recorder
from proxy.pipeline import Pipeline
from proxy.policy.loading import Delivery, LoadModels, Unknown
from proxy.ports import TokenCounter
from proxy.server.admission import Admissions
from proxy.server.background import Afterwards
from proxy.server.continuations import Continuations
from proxy.server.cross_origin import Grants
from proxy.server.owners import Owners
from proxy.store.conversations import DatabaseLineages
from proxy.upstreams.resilience import Resilient
from proxy.wire.dialect import Dialects, TokenCount
from proxy.wire.http.headers import ResponseHeaders
from proxy.wire.http.peers import TrustedProxies

if TYPE_CHECKING:
    from proxy.observe.tracing.trace import Tracing  # with OpenTelemetry, which only traces need


@dataclass(slots=True, frozen=True)
class ActivePolicy:
    """A loaded policy with its stages made."""

    label: str
    delivery: Delivery
    pipeline: Pipeline
    refuses: bool = False
    """Whether it may refuse or change an answer, or ends a request whose check could not run."""
    judges: bool = False
    """Whether it acts by what the request says: then every reader must read the same."""
    load_models: LoadModels = "at_start"
    unknown: Unknown = "drop"
    """What becomes of an answer that is not recognised whole, where the policy refuses what it cannot check."""


@dataclass(slots=True, frozen=True)
class Route:
    """A prefix with what it leads to."""

    prefix: str
    upstream: Resilient
    default: ActivePolicy
    allowed: Mapping[str, ActivePolicy]
    allow_skip: bool
    paths: PathRules
    asked_in: Mapping[str, Mapping[str, Api]] = field(default_factory=dict)
    """By the upstream's name, and that of each which stands in for it: paths whose API it does not speak, with the one it is asked in."""
    keeps_for_operator: bool = True
    """Whether what its upstream keeps for clients stands under the operator's key, so that ids have owners here."""
    own_machine_only: bool = False
    """Whether only this machine's own programs may use it: clients have no keys, and its upstream's calls cost the operator's."""
    translated: frozenset[str] = field(init=False)
    """Paths whose API its upstream, or one that stands in for it, does not speak."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "translated", frozenset(path for paths in self.asked_in.values() for path in paths))


@dataclass(slots=True, frozen=True)
class Services:
    """What every exchange uses."""

    server: ServerSettings
    ledger: Ledger
    clients: Clients
    upstreams: Mapping[str, Resilient]
    recorder: Recorder
    metrics: Metrics
    stage_names: frozenset[str]
    dialects: Dialects
    afterwards: Afterwards
    lineages: DatabaseLineages
    continuations: Continuations
    owners: Owners
    headers: ResponseHeaders
    tokens: TokenCounter
    counts: Mapping[str, TokenCount] = field(default_factory=dict)
    """Paths that count tokens, below ``/v1``."""
    grants: Grants = field(default_factory=Grants)
    """Which pages may read the upstreams' answers."""
    tracing: Tracing | None = None
    """None where nobody wants traces."""
    admissions: Admissions | None = None
    """None where clients have no keys."""


def make_ledger(server: ServerSettings, proxies: TrustedProxies | None, metrics: Metrics) -> Ledger:
    """As ``server:`` has it."""
    return Ledger(
        max_connections=server.max_connections,
        max_bodies_bytes=server.bodies_bytes,
        party_share=server.party_share,
        write_stall_s=server.write_stall_s,
        no_address=proxies.trusts if proxies else None,
        count=metrics.count,
    )
