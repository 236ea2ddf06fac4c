"""The composition root: settings + parts -> one ASGI application.

The request path is plain ASGI (`proxy.server.handler`); only the operator's surface is a Starlette application. Nothing here starts before
the server's lifespan does, and the order of its end is the reverse of its start: no new exchanges, records flushed, store closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from proxy import __version__
from proxy.admin.alerts import Alerts
from proxy.admin.api import AdminParts, make_admin
from proxy.admin.keys import KeyParts
from proxy.admin.report_page import report_page
from proxy.admin.verdicts import client_access
from proxy.config.access import Clients
from proxy.config.settings import (
    BuiltinSettings,
    Settings,
    UpstreamSettings,
    forwarding,
    load_settings,
)
from proxy.errors import ConfigError, NotFound, StoreUnavailable
from proxy.limits.limiter import CountedGuesses, CountedPlaces
from proxy.models.knowledge.bases import FolderKnowledgeBases
from proxy.models.making import DeferredModels, make_embedder, make_models, make_verifiers
from proxy.models.tokens.counter import TiktokenCounter
from proxy.observe import logs
from proxy.observe.finished import LogLine, clipped
from proxy.observe.metrics import Metrics
from proxy.observe.recording import Recorder, prices_of
from proxy.observe.tracing import make_tracing
from proxy.offloop import (
    call_before_stop,
    calm_collector,
    collect_garbage,
    drain_on_hangup,
    linger_on_term,
    one_thread_a_product,
    open_sockets,
    share_interpreter,
    share_memory,
)
from proxy.policy.loading import load_policies
from proxy.ports import Ports, Verifiers
from proxy.ports.stage import Stage
from proxy.ports.upstream import Upstream
from proxy.server.admission import make_admissions, make_counter
from proxy.server.completion import Completion
from proxy.server.continuations import Continuations
from proxy.server.cross_origin import is_api, with_cors
from proxy.server.handler import new_id
from proxy.server.owners import Owners
from proxy.server.passthrough import Passthrough
from proxy.server.routes import LearningTasks, Services, make_ledger, make_routes, servers_of
from proxy.server.start_page import GENERATED_KEY_VARIABLE
from proxy.stages.poisoning.injection import why_suspicious
from proxy.stages.registry import STAGES
from proxy.store.clashes import DatabaseClashes
from proxy.store.conversations import DatabaseHistories, DatabaseLineages, DatabaseOwners
from proxy.store.database import Database
from proxy.store.failures import DatabaseFailures
from proxy.store.figures import RollupBuilder
from proxy.store.journal import Journal
from proxy.store.knowledge import StoredKnowledgeBases
from proxy.store.memory import DatabaseCompactions, DatabaseFirstSeen, DatabaseScratchpad, DatabaseSpending, DatabaseToolRuns
from proxy.store.pages import pages_of, reports_of
from proxy.store.processes import Processes, process_name
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.records import Records
from proxy.store.retention import Retention
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from proxy.store.vectors import DatabaseVectors
from proxy.store.writer import STOP_S, RecordWriter
from proxy.upstreams.asking import UpstreamChat, UpstreamDecisions
from proxy.upstreams.builtin import BuiltinUpstream
from proxy.upstreams.making import decision_apis, make_resilient, make_upstream, model_prefixes, model_settings
from proxy.upstreams.mcp_tools import McpServers
from proxy.upstreams.resilience import Resilient
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialects
from proxy.wire.gemini.address import readdress
from proxy.wire.gemini.dialect import GeminiCount, GeminiDialect
from proxy.wire.http.asgi import Departures, Receive, Responder, Scope, Send, whole_writer
from proxy.wire.http.bounds import STATE
from proxy.wire.http.headers import ResponseHeaders, plain_headers, raw_path, tail
from proxy.wire.http.peers import TrustedProxies
from proxy.wire.http.sockets import as_http, denying
from proxy.wire.messages.dialect import MessagesCount, MessagesDialect
from proxy.wire.responses.dialect import ResponsesCount, ResponsesDialect

log = logging.getLogger("groundwire")

CONFIG_VARIABLE = "GROUNDWIRE_CONFIG"
DIALECTS = Dialects((ChatDialect(), ResponsesDialect(), MessagesDialect(), GeminiDialect()))
COUNTS = (MessagesCount(), GeminiCount(), ResponsesCount())
LARGE_BODIES_BYTES = 1_000_000


class App:
    """The ASGI application of one worker process."""

    def __init__(
        self,
        settings: Settings,
        stages: Sequence[type[Stage]] = STAGES,
        make: Callable[[str, UpstreamSettings], Upstream] | None = None,
        verifiers: Verifiers | None = None,
    ) -> None:
        """Build every part; `make` builds the upstreams, `verifiers` take the place of this process's own. Raises `ConfigError`."""
        self._make_upstream = make or self._own_upstream
        self.settings = settings
        self.verifiers = make_verifiers(settings)
        self._verifiers: Verifiers = verifiers or self.verifiers
        self.tokens = TiktokenCounter(model_settings(settings))
        self.metrics = Metrics()
        self.database = Database(settings.store.url)
        self.pages_database = pages_of(self.database, settings.store.url)
        self.reports_database = reports_of(self.pages_database, self.database, settings.store.replica_url)
        process = process_name()
        journal = Journal(self.database.file, process) if self.database.file is not None else None
        self.records_writer = RecordWriter(self.database, self.metrics, journal=journal)
        self.retention = Retention(self.database, days=settings.store.retention_days, max_mb=settings.store.retention_mb)
        records = Records(self.pages_database, self.records_writer, lists=self.reports_database)
        scratchpad = DatabaseScratchpad(self.database)
        quarantine, clashes, failures = DatabaseQuarantine(self.database), DatabaseClashes(self.database), DatabaseFailures(self.database)
        self._proxies = TrustedProxies(settings.server.trusted_proxies) if settings.server.trusted_proxies else None
        self.ledger = make_ledger(settings.server, self._proxies, self.metrics)
        self.counter = make_counter(settings, self.database)
        if settings.limits.url or settings.server.workers > 1 or not self.database.is_sqlite:
            self.ledger.shared = CountedGuesses(self.counter, self.metrics)
        shared = any(upstream.max_concurrency_everywhere for upstream in settings.upstreams.values())
        self.places = CountedPlaces(self.counter, self.metrics) if shared else None
        self.upstreams = {name: self._resilient(name, s) for name, s in settings.upstreams.items()}
        policies, outcomes = load_policies(settings, stages), DatabaseToolOutcomes(self.database)
        used = tuple(dict.fromkeys((*stages, *(stage for found in policies.values() for stage in found.stages))))
        self.models = DeferredModels(lambda: make_models(settings, outcomes, partial(DatabaseVectors, self.database)))
        self.knowledge = (
            StoredKnowledgeBases(self.database, self.models, settings.folder)
            if settings.stored_knowledge
            else FolderKnowledgeBases(Path(settings.folder), self.models)
        )
        self.mcp = McpServers(settings.mcp.servers, quarantine, why_suspicious)
        ports = Ports(
            tokens=self.tokens,
            counters=self.metrics,
            scratchpad=scratchpad,
            embedder=self.models,
            chat=UpstreamChat(self.upstreams, forwarding(settings), self.tokens),
            decisions=UpstreamDecisions(self.upstreams, decision_apis(settings), self.tokens, forwarding(settings)),
            ranker=self.models,
            tool_runs=DatabaseToolRuns(self.database),
            compactions=DatabaseCompactions(self.database),
            first_seen=DatabaseFirstSeen(self.database),
            verifiers=self._verifiers,
            knowledge=self.knowledge,
            quarantine=quarantine,
            clashes=clashes,
            failures=failures,
            spending=DatabaseSpending(self.database),
            tool_servers=self.mcp,
        )
        self.ports = ports
        """What stages get, but for the judge, which is a policy's."""
        self.routes = make_routes(settings, policies, self.upstreams, ports, self._reading_since)
        self.processes = Processes(self.database, process, self.versions, journal=journal)
        self._watch()
        self.learning_tasks = LearningTasks(self.metrics)
        self._ping: asyncio.Task[str] | None = None
        self.tracing = make_tracing(settings, self.metrics)
        prices = prices_of(model_prefixes(settings), self.tokens.model)
        clients = Clients(settings.keys, stored=settings.store.keys, clock=self.database.clock)
        self.admissions = make_admissions(settings, self.database, self.counter, clients, self.tokens, prices, self.metrics)
        self._services = services = Services(
            server=settings.server,
            ledger=self.ledger,
            clients=clients,
            upstreams=self.upstreams,
            recorder=Recorder(
                self.records_writer,
                self.metrics,
                bodies=settings.store.bodies,
                texts=settings.store.kept_texts,
                price=prices,
                process=self.processes.name,
                keys=self.keys_version,
            ),
            metrics=self.metrics,
            stage_names=frozenset(stage.name for stage in stages),
            dialects=DIALECTS,
            learning_tasks=self.learning_tasks,
            lineages=DatabaseLineages(self.database),
            continuations=Continuations(DatabaseHistories(self.database)),
            owners=Owners(DatabaseOwners(self.database), self.ledger, keyed=settings.keyed),
            headers=ResponseHeaders(header for stage in used for header in stage.headers),
            tokens=self.tokens,
            counts={count.path: count for count in COUNTS},
            tracing=self.tracing,
            admissions=self.admissions,
            clock=self.database.clock,
        )
        self._departures, self._leaves, self._is_ending = Departures(), False, False
        self._for_pages = with_cors(settings.cors.origins, self._http) if settings.cors.origins else None
        admin_key = settings.server.admin_key or os.environ.get(GENERATED_KEY_VARIABLE, "")
        prefixes = tuple(route.prefix for route in settings.routes)
        shadow = tuple(route.prefix or "/" for route in self.routes if not route.default.pipeline.enforces)
        parts = AdminParts(
            admin_key,
            self.pages_database,
            records,
            self.metrics,
            self.missing,
            self.store_problem,
            reports=self.reports_database,
            stages=used,
            routes=prefixes,
            shadow=shadow,
        )
        access = client_access(services.clients, DIALECTS, [route.prefix for route in self.routes if route.own_machine_only])
        counter = self.admissions.limiter.counter if self.admissions is not None else None
        keys = KeyParts(settings.keys, settings.teams, prefixes, settings.store.keys, counter)
        more: dict[str, Any] = {"access": access, "exchanges": services.recorder.open, "ledger": self.ledger, "keys": keys}
        more |= {"runs": self.runs}
        if settings.mcp.endpoint:
            from proxy.admin.mcp import OwnTools

            admit = self.admissions.admit_call if self.admissions is not None else None
            more["own_tools"] = OwnTools(ports, servers_of(self.routes, clients), failures, admit)
        self._admin = make_admin(replace(parts, bodies=settings.store.bodies, texts=settings.store.kept_texts, **more))
        self.rollups = RollupBuilder(self._admin.state.figures, clock=self.database.clock)
        self.alerts = Alerts(
            settings.alerts,
            self.pages_database,
            self._admin.state.figures,
            self.metrics,
            name=process,
            drift=lambda: self.processes.drift,
            page=partial(report_page, self.reports_database, parts.panels, price=prices),
        )
        self._warming: dict[str, asyncio.Task[Any]] = {}
        """What is made ready in threads, by what `missing` calls it."""
        self._pricing: asyncio.Task[None] | None = None
        self._loading: list[asyncio.Task[None]] = []
        self._collecting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            if self._proxies is not None:
                scope = self._proxies.resolve(scope)
            await (self._for_pages if self._for_pages and is_api(scope) else self._http)(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(self._proxies.resolve(scope) if self._proxies is not None else scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        from proxy.server.sockets import PATH, Opening

        path, asked = raw_path(scope), as_http(scope, "GET")
        await receive()
        route = next((route for route in self.routes if path == f"{route.prefix}/v1{PATH}"), None)
        if route is None:
            await self._http(asked, receive, denying(send))
            return
        behind, responder = tail(scope, path, route.prefix), Responder(receive, denying(send))
        opening = Opening(self._services, route, asked, receive, responder, behind, DIALECTS.of(PATH))
        opening.origins = self.settings.cors.origins
        await opening.serve()
        if opening.accepted:
            await opening.socket(self._http, receive, send, scope).run()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = raw_path(scope)
        if ":" in path or "/v1beta" in path or "/v1alpha" in path:
            scope, send = readdress(scope, send)
            path = raw_path(scope)
        for route in self.routes:
            if path.startswith(route.prefix) and path.startswith("/v1/", len(route.prefix)):
                behind, responder = tail(scope, path, route.prefix), Responder(receive, send, self._departures, whole_writer(scope))
                dialect = DIALECTS.of(behind.partition("?")[0]) if scope["method"] == "POST" else None
                made = Passthrough if dialect is None else Completion
                await made(self._services, route, scope, receive, responder, behind, dialect).serve()
                return
        if "/v1/" in scope["path"] and not path.startswith("/groundwire/"):
            known = ", ".join(f"{route.prefix}/v1" for route in self.routes)
            error = NotFound(f"no route serves {path[:200]}; a client's base_url is this server's address and one of: {known}")
            record_id, method = new_id(self.database.clock()), scope["method"]
            spoken = DIALECTS.for_client(path.partition("/v1")[2], scope["headers"])
            await Responder(receive, send).error(error, plain_headers(record_id, "skipped"), spoken.error(error))
            refused = LogLine(id=record_id, status=error.status, verdict="skipped", method=method, path=clipped(path), error=error.code)
            logs.exchange(refused)
            return
        await self._admin(scope, receive, send)  # type: ignore[arg-type]

    async def start(self) -> None:
        """Open the store and the upstreams. Raises `ConfigError` for what can never work."""
        share_memory()
        open_sockets(self.settings.server.max_connections)
        one_thread_a_product()
        if isinstance(self.knowledge, FolderKnowledgeBases):
            self.knowledge.check(lambda: make_embedder(self.settings).name)
        await asyncio.gather(*(database.start() for database in self._databases))  # one that is away takes its time
        self.records_writer.start()
        self.processes.start()
        self.retention.start()
        self.rollups.start()
        self.alerts.start()
        self.metrics.start()
        await self.counter.start()
        if self.places is not None:
            await self.places.start()
        if self.admissions is not None:
            await self.admissions.start()
        if self.tracing is not None:
            self.tracing.start()
        for upstream in self.upstreams.values():
            await upstream.upstream.start()
        self.mcp.start()
        self._pricing = asyncio.create_task(asyncio.to_thread(self.tokens.load_list))  # the records need its prices
        counter = None
        if self._counts_at_start:
            self._warming["token counter"] = counter = asyncio.create_task(asyncio.to_thread(self.tokens.load))
        if self.has_stages:
            self._warming["stages"] = asyncio.create_task(self._warm_after(counter))
        self._loading = [asyncio.create_task(load) for load in self._models_to_load()]
        calm_collector()
        self._collecting = asyncio.create_task(collect_garbage(self._has_large_bodies), name="garbage-collector")
        share_interpreter()

    def _has_large_bodies(self) -> bool:
        """Whether requests that are being answered make a look through all objects a long one: 4 MB are up to a million of them."""
        return self.ledger.bodies.total - self.ledger.bodies.free > LARGE_BODIES_BYTES

    async def load_models(self) -> None:
        """All that policies read at the start. A failure is logged, and shown by `missing`."""
        await asyncio.gather(*self._models_to_load())

    @property
    def _counts_at_start(self) -> bool:
        """Whether the vocabulary is read at start: where a policy says so, and where what keys take is counted."""
        early = any(route.default.load_models == "at_start" and route.default.pipeline.stages for route in self.routes)
        return early or self._has_builtin or self.admissions is not None

    @property
    def _has_builtin(self) -> bool:
        return any(isinstance(upstream, BuiltinSettings) for upstream in self.settings.upstreams.values())

    def _models_to_load(self) -> Iterator[Coroutine[Any, Any, None]]:
        stages = [stage for route in self.routes if route.default.load_models == "at_start" for stage in route.default.pipeline.stages]
        if any(stage.embeds for stage in stages):
            yield self.models.load()
        verifies = [stage for stage in stages if stage.verifies and stage.ports.verifiers is self.verifiers]
        verifiers = dict.fromkeys(stage.ports.judge.local_model for stage in verifies)
        if self._has_builtin and self._verifiers is self.verifiers:
            verifiers[""] = None
        if self.knowledge:
            yield self.knowledge.load()
        if verifiers:
            yield self.verifiers.load(verifiers)

    async def stop(self) -> None:
        """Close everything; records that wait are written first."""
        for task in (*self._loading, *self._warming.values(), self._pricing, self._collecting):
            if task is not None:
                task.cancel()
        await self._admin.state.stop()
        await self.alerts.stop()
        await self.learning_tasks.stop()
        if self.admissions is not None:
            await self.admissions.stop()
        if self.places is not None:
            await self.places.stop()
        await self.counter.stop()
        for pipeline in {id(p.pipeline): p.pipeline for route in self.routes for p in route.allowed.values()}.values():
            for stage in pipeline.stages:
                await stage.stop()
        await self.mcp.stop()
        await self.knowledge.stop()
        await self.models.stop()
        self.verifiers.stop()
        for upstream in self.upstreams.values():
            await upstream.upstream.stop()
        if self.tracing is not None:
            await self.tracing.stop()
        await self.retention.stop()
        await self.rollups.stop()
        await self.records_writer.stop(STOP_S if self.database.is_sqlite else max(STOP_S, self.settings.server.drain_s))
        await self.processes.stop()
        if self._ping is not None:
            self._ping.cancel()
        for database in reversed(self._databases):
            await database.stop()
        await self.metrics.stop()

    @property
    def _databases(self) -> Sequence[Database]:
        """Each pool once, the requests' first."""
        return list(dict.fromkeys((self.database, self.pages_database, self.reports_database)))

    def _watch(self) -> None:
        """What the metrics ask for when they are read."""
        pipelines = [policy.pipeline for route in self.routes for policy in route.allowed.values()]
        used = [stage for pipeline in pipelines for stage in pipeline.stages]
        self.metrics.expect(sorted({stage.name for stage in used}))
        for stage in used:
            self.metrics.declare(stage.counters)
        self.metrics.watch("groundwire_store_available", lambda: float(self.database.available))
        self.metrics.watch("groundwire_processes", lambda: float(self.processes.alive))
        self.metrics.watch("groundwire_alerts_firing", lambda: float(len(self.alerts.state.get("firing", ()))))
        self.metrics.watch("groundwire_drift", lambda: float(bool(self.processes.drift)))
        self.metrics.watch("groundwire_mcp_servers_away", lambda: float(len(self.mcp.away())))
        self.metrics.watch("groundwire_mcp_tools_held", lambda: float(self.mcp.held_count()))
        self.metrics.watch("groundwire_records_waiting", lambda: float(len(self.records_writer)))

    async def _warm_after(self, counter: asyncio.Task[bool] | None) -> None:
        """Not beside the vocabulary, whose reading makes a million small objects for a moment: one kept among them keeps the memory."""
        if counter is not None:
            await asyncio.wait([counter])
        await asyncio.to_thread(self.warm)

    @property
    def has_stages(self) -> bool:
        """Whether any policy that a client may name has a stage."""
        return any(policy.pipeline.stages for route in self.routes for policy in route.allowed.values())

    def warm(self) -> None:
        """What the first request of any policy that a client may name would otherwise wait for."""
        policies = (policy for route in self.routes for policy in route.allowed.values())
        for stage in dict.fromkeys(stage for policy in policies for stage in policy.pipeline.stages):
            try:
                stage.warm()
            except Exception as error:  # its first request will say so, too
                log.error("stage %s could not be made ready", stage.name, exc_info=error)

    def _reading_since(self, moment: float) -> bool:
        return any(source.reading_since(moment) for source in (self.models, self.verifiers, self.tokens))

    def missing(self) -> dict[str, str]:
        """What is not ready yet, and why."""
        found = {name: "still loading" for name, task in self._warming.items() if not task.done()}
        if self._leaves:
            found["process"] = "is about to end"
        if self.models.problem:
            found["embedding model"] = self.models.problem
        if self.knowledge.problem:
            found["knowledge"] = self.knowledge.problem
        if self.verifiers.problem:
            found["verifier"] = self.verifiers.problem
        return found

    def keys_version(self) -> str:
        """Of the keys that count here; "" where clients need none."""
        return self.admissions.ring.version if self.admissions is not None else ""

    def versions(self) -> dict[str, Any]:
        """Which release, policies, keys and knowledge this process has."""
        found: dict[str, Any] = {"version": __version__, "policies": {route.prefix or "/": route.default.label for route in self.routes}}
        found |= {"keys": self.keys_version()} if self.admissions is not None else {}
        return found | ({"knowledge": self.knowledge.versions} if self.knowledge else {})

    def runs(self) -> dict[str, Any]:
        """The same, in what the other processes of its store differ, and what it cannot reach."""
        found: dict[str, Any] = {"drift": self.processes.drift, "mcp_servers_away": self.mcp.away(), "alerts": self.alerts.state}
        found["clock"] = self.database.clock.problem
        if self.reports_database is not self.pages_database:
            found["replica"] = self.reports_database.problem
        return {**self.versions(), **{name: value for name, value in found.items() if value}}

    async def store_problem(self, patience_s: float | None = None) -> str:
        """Why the store takes nothing now; "" where it does. Requests are answered all the same. One that says nothing at all for
        `patience_s` is away; what was asked of it then is for whoever asks next.
        """
        problem = self.records_writer.problem
        found = [f"{len(self.records_writer)} records wait to be written: {problem}"] if problem else []
        found += [self.database.clock.problem] if self.database.clock.problem else []
        if self._ping is None or self._ping.done():
            self._ping = asyncio.create_task(self._pinged(), name="store-ping")
        done, _ = await asyncio.wait((self._ping,), timeout=patience_s)
        problem = self._ping.result() if done else f"the store gave no answer within {patience_s:g} s"
        found = [problem, *found] if problem else found
        return "; ".join(found) or (f"this process cannot say that it lives: {self.processes.problem}" if self.processes.problem else "")

    async def _pinged(self) -> str:
        try:
            await self.database.ping()
        except StoreUnavailable as error:
            return str(error)
        return ""

    def _leave(self) -> None:
        self._leaves = True

    def _say_end(self, number: signal.Signals) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        server, alone = self.settings.server, number.name == "SIGHUP" and parent_process() is None
        log.info(
            "%s: process %d ends when its running answers have left, in %g s at the latest%s",
            number.name,
            os.getpid(),
            server.unready_s + server.drain_s,
            ": only a server with several workers reads its configuration anew" if alone else "",
        )

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if "state" in scope:
            scope["state"][STATE] = self.ledger
        try:
            await self.start()
        except ConfigError as error:
            log.error("%s", error)
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        linger_on_term(self.settings.server.unready_s, self._leave)
        call_before_stop(self._say_end)
        if parent_process() is not None:  # the start page, which is shown once, says it of a server that has one process
            labels = {policy.label for route in self.routes for policy in route.allowed.values()}
            log.info("worker %d serves the policies %s", os.getpid(), ", ".join(sorted(labels)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        log.info("process %d has ended in order", os.getpid())
        await send({"type": "lifespan.shutdown.complete"})

    def _resilient(self, name: str, settings: UpstreamSettings) -> Resilient:
        made, most = self._make_upstream(name, settings), self.settings.server.max_answer_bytes
        figures = self.metrics.upstream(name)
        return make_resilient(made, settings, self.tokens, self.ledger, self.metrics, figures, most, self.places)

    def _own_upstream(self, name: str, settings: UpstreamSettings) -> Upstream:
        if isinstance(settings, BuiltinSettings):
            return BuiltinUpstream(name, settings, self._verifiers, self.tokens, self.settings.server.max_body_bytes)
        return make_upstream(name, settings)


def preload(settings: Settings) -> None:
    """Read what is the same in all workers, for the process that they are forked from: it leaves nothing but what modules remember."""
    app = App(settings)
    if app.has_stages:
        app.tokens.load()
        app.warm()
    else:
        app.tokens.load_list()


def from_environment() -> App:
    """The application for a worker process: the config file's path comes in an environment variable.

    Raises `ConfigError`, and `SystemExit` in a process beside others: what is wrong then stands in the log.
    """
    logs.configure()
    drain_on_hangup()
    try:
        settings = load_settings(Path(os.environ[CONFIG_VARIABLE]))
        logs.configure(settings.logging)
        return App(settings)
    except ConfigError as error:
        if parent_process() is None:
            raise
        log.error("worker %d cannot start: %s", os.getpid(), error.summary())
        raise SystemExit(1) from error
