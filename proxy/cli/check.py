"""``groundwire check``: everything that is wrong with config.yaml and its policies, also those that no route names; or what it comes to."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from proxy.cli.terminal import refused
from proxy.config.conversion import Problems
from proxy.config.settings import BuiltinSettings, EmbeddedSettings, OpenAISettings, RouteSettings, Settings, load_settings, read_settings
from proxy.errors import ConfigError, ModelUnavailable, StoreUnavailable
from proxy.exchange import Usage
from proxy.models.making import make_embedder, make_pair_model
from proxy.models.tokens.counter import TiktokenCounter
from proxy.policy.loading import Policy, PolicyReading, RoutePolicies, has_stages, load_policy
from proxy.policy.precision import below_floor
from proxy.ports.stage import Stage
from proxy.server.startup import check_exposure, check_store
from proxy.store.database import Database
from proxy.store.knowledge import extension_problem
from proxy.store.pages import reports_of
from proxy.upstreams.embedded import EmbeddedUpstream
from proxy.upstreams.gguf import default_model_path
from proxy.upstreams.making import decision_apis, make_upstream
from proxy.wire.translation.translate import APIS, TITLES

_BY_PASSAGES = ("relevance", "citations", "confidence", "claims")


def migrate(path: Path) -> int:
    """Bring the store's tables to this release; 0, or 2 where that cannot be. Raises `ConfigError`."""
    database = Database(load_settings(path, parts=("store",)).store.url, source=str(path))
    try:
        revision = asyncio.run(database.migrate())
    except StoreUnavailable as error:
        return refused(f"the store {database.name} cannot be migrated: {error}")
    print(f"the store {database.name} has revision {revision}")
    return 0


def check(path: Path, shipped: Sequence[str] = ()) -> int:
    """Print it; returns 0, or 2 where something is wrong. `shipped` are the names of the policies that come with Groundwire."""
    found = Problems()
    settings = read_settings(path, found)
    lines = [f"{path}: ok"]
    if settings is not None:
        with found.caught():
            database = Database(settings.store.url, source=str(path))
            reports_of(database, database, settings.store.replica_url, str(path))
            lines += _knowledge(settings, str(path))
            if note := check_store(settings, str(path)):
                lines.append(f"  note: {note}")
        lines += _absent(settings)
        with found.caught():
            check_exposure(settings, settings.server, str(path))
        reading = PolicyReading(settings, str(path))
        for i, route in enumerate(settings.routes):
            policies = reading.route(i, route)
            lines += _route(route, policies, shipped, settings) if policies is not None else ()
        lines += _translations(settings)
        found.found += reading.problems.found
        used = {file.resolve() for file in reading.read}
        folders = {file.parent.resolve() for file in used} | {Path(settings.folder) / "policies"}
    else:
        used, folders = set(), {path.resolve().parent / "policies"}
    if settings is not None and not found.found:
        found.found += _unreadable(settings, [policy for policy in reading.read.values() if policy is not None], str(path))
    lines += _unused([file for file in _policy_files(folders, path) if file not in used])
    try:
        found.raised()
    except ConfigError as refused:
        return _refused(list(refused))
    print("\n".join(lines))
    return 0


def _knowledge(settings: Settings, source: str) -> Iterator[str]:
    """Whether the store can hold knowledge, where it is to. Raises `ConfigError`."""
    if not settings.stored_knowledge or not settings.store.url.startswith("postgres"):
        return
    try:
        problem = asyncio.run(Database(settings.store.url, source=source).inspect(extension_problem))
    except StoreUnavailable as error:
        yield f"  note: knowledge.store: {error}; whether it has the extension vector is not known"
        return
    if problem:
        raise ConfigError(source, "knowledge.store", problem)


def _unreadable(settings: Settings, policies: list[Policy], source: str) -> Iterator[ConfigError]:
    """Models that cannot be read, which a server would find with the first request that needs them."""
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, EmbeddedSettings) and (upstream.model_path or default_model_path().exists()):
            try:
                asyncio.run(EmbeddedUpstream(name, upstream).probe())
            except ConfigError as error:
                yield error
    uses = [spec.stage.local_models(spec.options) for policy in policies for spec in policy.stages]
    if any(embeds for embeds, _ in uses) and (problem := asyncio.run(_embedding_problem(settings))):
        yield ConfigError(source, "embeddings", problem)
    judges = [(policy.file, "judge.model", policy.judge.model) for policy in policies if policy.judge and policy.judge.kind == "builtin"]
    builtin = any(isinstance(upstream, BuiltinSettings) for upstream in settings.upstreams.values())
    own = [(source, "grounding", "")] if builtin or any(verifies for _, verifies in uses) else []
    for file, place, model in dict.fromkeys([*own, *judges]):
        try:
            make_pair_model(settings, model).load()
        except ModelUnavailable as error:
            yield ConfigError(file, place, str(error))


async def _embedding_problem(settings: Settings) -> str | None:
    embedder = make_embedder(settings)
    try:
        await embedder.load()
        return embedder.problem
    finally:
        embedder.stop()


def _absent(settings: Settings) -> Iterator[str]:
    """MCP servers that cannot be started from here, a local model that was not fetched (the server's machine may be another one), and
    addresses of upstreams that stop short of ``/v1``, as few servers' do.
    """
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, OpenAISettings) and not urlsplit(upstream.base_url).path.strip("/"):
            yield f"  note: upstreams.{name}.base_url: has no path, as /v1: calls go to {upstream.place.rstrip('/')}/chat/completions"
        if isinstance(upstream, EmbeddedSettings) and not upstream.model_path and not default_model_path().exists():
            yield f"  note: upstreams.{name}: its model is not on this machine yet: groundwire fetch-model"
    for name, server in settings.mcp.servers.items():
        if server.command and shutil.which(server.command, path=server.env.get("PATH")) is None:
            yield f"  note: mcp.servers.{name}.command: there is no program {server.command!r} on this machine"


def _refused(every: list[ConfigError]) -> int:
    """Print each problem on a line of its own, and how many there are; returns the exit status."""
    for error in every:
        print(f"groundwire: {error.located()}", file=sys.stderr)
    if len(every) > 1:
        print(f"{len(every)} problems", file=sys.stderr)
    return 2


def _policy_files(folders: set[Path], config: Path) -> Iterator[Path]:
    """Of these folders; beside config.yaml there may be other YAML, so there only what has stages."""
    for folder in sorted(folders):
        for file in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
            if folder != config.resolve().parent or (file != config.resolve() and has_stages(file)):
                yield file


def _unused(files: list[Path]) -> Iterator[str]:
    """Policies that no route names; what is wrong with one keeps nothing from starting."""
    for file in files:
        try:
            yield f"  {file.name}: no route uses it; {_in_short(load_policy(file))}"
        except ConfigError as error:
            yield f"  {file.name}: no route uses it, and none could:"
            yield from (f"    {one.located()}" for one in error)


def _in_short(policy: Policy) -> str:
    return f"{policy.delivery}: {', '.join(spec.stage.name for spec in policy.stages) or 'no stages'}"


def _translations(settings: Settings) -> Iterator[str]:
    """Which clients an upstream that routes lead to is asked for in another API than their own."""
    named = [name for route in settings.routes for name in (route.upstream, *_fallback(route, settings))]
    for name in dict.fromkeys(name for name in named if name in settings.upstreams):
        upstream = settings.upstreams[name]
        spoken = APIS if isinstance(upstream, BuiltinSettings) else upstream.spoken  # which is asked in none of them
        if others := [TITLES[api] for api in APIS if api not in spoken]:
            *most, last = others
            yield f"  {name}: {' and '.join(filter(None, (', '.join(most), last)))} translated to {TITLES[spoken[0]]}"


def _fallback(route: RouteSettings, settings: Settings) -> tuple[str, ...]:
    return settings.upstreams[route.upstream].fallback if route.upstream in settings.upstreams else ()


def _without_hand_over(policy: Policy) -> list[str]:
    """Its stages for answers from passages, where none hands the model those that a client sends beside its messages."""
    stages = [spec.stage for spec in policy.stages if spec.options.enabled]
    if any(stage.hand_over is not Stage.hand_over for stage in stages):
        return []
    return [stage.name for stage in stages if stage.name in _BY_PASSAGES]


def _unpriced_judge(policy: Policy, settings: Settings) -> str:
    """``UPSTREAM/MODEL`` of a judge whose daily budget cannot be kept; "" of any other."""
    judge = policy.judge
    upstream = settings.upstreams.get(judge.upstream) if judge is not None and judge.max_usd_per_day is not None else None
    if judge is None or upstream is None or isinstance(upstream, BuiltinSettings):
        return ""
    api = decision_apis(settings).get(judge.upstream) if judge.kind == "decisions" else None
    model = TiktokenCounter(settings.models).model(make_upstream(judge.upstream, upstream).catalogue_name(judge.model))
    is_priced = model.cost_usd(Usage(1, 1)) is not None or (api is not None and api.usd_per_million_tokens is not None)
    return "" if is_priced else f"{judge.upstream}/{judge.model}"


def _route(route: RouteSettings, found: RoutePolicies, shipped: Sequence[str], settings: Settings) -> Iterator[str]:
    enforced, columns = found.default.enforce and route.enforce, shutil.get_terminal_size().columns
    how = _in_short(found.default) if enforced else _in_short(found.default).replace(found.default.delivery, "shadow mode", 1)
    said = f"  {route.prefix}/v1 -> {route.upstream}, {found.default.label} ({how})"
    yield from textwrap.wrap(said, columns, subsequent_indent="    ", break_on_hyphens=False)
    also = [name for name in found.allowed if name != found.default.name]
    if also:
        yield f"    on request: {', '.join(also)}"
    for policy in found.allowed.values():
        if policy.name in shipped and (file := Path(policy.file)).stem != policy.name:
            yield f"    note: {file.name} has the name of a shipped policy, {policy.name}, in headers and records"
        if judging := _without_hand_over(policy):
            lacking = "and no stage hands the passages of groundwire.context to the model: faithful does"
            yield f"    note: {policy.name} has {', '.join(judging)}, {lacking}"
        if judge := _unpriced_judge(policy, settings):
            yield f"    note: {policy.name} has judge.max_usd_per_day, and no price of {judge} is known: it is asked until its first answer"
        for spec in policy.stages if policy.enforce and route.enforce else ():
            for line in below_floor(spec.stage.name, policy.actions(spec)):
                yield f"    note: {policy.name} lets {spec.stage.name} {line}"
