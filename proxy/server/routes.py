"""What a request meets: a route with its upstream and its policies, and what every exchange uses. Made once, by `proxy.app`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.config.access import Clients, PathRules
from proxy.config.settings import Api, RouteSettings, ServerSettings, Settings, forwarding, spends
from proxy.grounding.judging.judges import make_judge
from proxy.ledger import Ledger
from proxy.observe.metrics import Metrics
from proxy.observe.recording import Recorder
from proxy.pipeline import Pipeline, never
from proxy.policy.loading import Delivery, LoadModels, Policy, RoutePolicies, Unknown
from proxy.policy.shadow import ShadowPipeline, Uncounted
from proxy.ports import Counters, Ports, TokenCounter
from proxy.ports.deadline import with_deadline
from proxy.server.admission import Admissions
from proxy.server.continuations import Continuations
from proxy.server.cross_origin import Grants
from proxy.server.owners import Owners
from proxy.store.clock import StoreClock
from proxy.store.conversations import DatabaseLineages
from proxy.upstreams.resilience import Resilient
from proxy.upstreams.translating import translated_paths
from proxy.wire.dialect import Dialects, TokenCounting
from proxy.wire.http.headers import ResponseHeaders
from proxy.wire.http.peers import TrustedProxies

if TYPE_CHECKING:
    from proxy.observe.trace import Tracing  # with OpenTelemetry, which only traces need


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
    load_models: LoadModels = "at_first_use"
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


def servers_of(routes: Sequence[Route], clients: Clients) -> Callable[[str], list[str]]:
    """Gives the MCP servers whose tools the policies that a client may use offer."""

    def names(client: str) -> list[str]:
        key = clients.key(client)
        own = [route for route in routes if key is None or not key.routes or route.prefix in key.routes]
        stages = [stage for route in own for policy in route.allowed.values() for stage in policy.pipeline.stages]
        return list(dict.fromkeys(name for stage in stages for name in stage.tool_servers(stage.options)))

    return names


PLACES = 64
"""Most exchanges that are learned from at once, in one process."""
DRAIN_S = 2.0
"""How long a server that stops waits for them."""


class LearningTasks:
    """Runs what stages learn from an exchange (`Stage.on_done`), when its answer has left; what does not fit is dropped and counted.

    The work must not raise.
    """

    def __init__(self, counters: Counters, *, places: int = PLACES) -> None:
        self._counters, self._places = counters, places
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Start it; False where there is no place left."""
        if len(self._tasks) >= self._places:
            self._counters.count("context.learning_dropped_count")
            return False
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Wait for what runs, for a while, then cancel it."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


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
    learning_tasks: LearningTasks
    lineages: DatabaseLineages
    continuations: Continuations
    owners: Owners
    headers: ResponseHeaders
    tokens: TokenCounter
    counts: Mapping[str, TokenCounting] = field(default_factory=dict)
    """Paths that count tokens, below ``/v1``."""
    grants: Grants = field(default_factory=Grants)
    """Which web pages may read the upstreams' answers."""
    tracing: Tracing | None = None
    """None where nobody wants traces."""
    admissions: Admissions | None = None
    """None where clients have no keys."""
    clock: StoreClock = field(default_factory=StoreClock)
    """When a request came: by the store's clock where the machine's is wrong."""


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


def make_routes(
    settings: Settings,
    policies: Mapping[str, RoutePolicies],
    upstreams: Mapping[str, Resilient],
    ports: Ports,
    reading_since: Callable[[float], bool],
) -> list[Route]:
    """As ``routes:`` has them, the longest prefix first; `reading_since` is for pipelines whose models are read at their first use."""
    active: dict[tuple[int, bool], ActivePolicy] = {}
    uncounted = msgspec.structs.replace(ports, counters=Uncounted())

    def activate(policy: Policy, route: RouteSettings) -> ActivePolicy:
        enforced = policy.enforce and route.enforce
        key = id(policy), enforced
        if key not in active:
            given = ports if enforced else uncounted
            given = msgspec.structs.replace(given, judge=make_judge(policy.judge, given, policy.name))
            stages = [spec.stage(spec.options, with_deadline(given, spec.options.timeout_ms)) for spec in policy.stages]
            later = policy.load_models == "at_first_use"
            made = Pipeline if enforced else ShadowPipeline
            pipeline = made(stages, policy.retrieval_tools, reading_since=reading_since if later else never)
            active[key] = ActivePolicy(
                policy.label,
                policy.delivery,
                pipeline,
                refuses=enforced and policy.refuses,
                judges=enforced and policy.judges,
                load_models=policy.load_models,
                unknown=policy.unknown,
            )
        return active[key]

    routes = []
    forwards = forwarding(settings)
    for route in sorted(settings.routes, key=lambda r: len(r.prefix), reverse=True):
        found = policies[route.prefix]
        allowed = {name: activate(policy, route) for name, policy in found.allowed.items()}
        own = not settings.keyed and not settings.server.allow_anonymous and spends(settings, route.upstream)
        upstream, default = upstreams[route.upstream], activate(found.default, route)
        chain = (route.upstream, *settings.upstreams[route.upstream].fallback)
        asked_in = {name: translated_paths(settings.upstreams[name].spoken) for name in chain}
        ids = route.upstream not in forwards
        routes.append(Route(route.prefix, upstream, default, allowed, route.allow_skip, PathRules(route.passthrough), asked_in, ids, own))
    return routes
