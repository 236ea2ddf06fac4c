"""``groundwire tune``: stored exchanges through another policy in shadow, and what would change, before anybody switches.

In: records with bodies, from the store opened read-only, and a policy. Each is made an exchange again, with its stored answer, and goes
through the shadow pipeline (`proxy.policy.shadow`) of an application whose store is in memory and whose upstreams answer nobody, unless
``--ask`` lets judges and stages ask them. Out: counts then and now, examples of what differs, tokens, cost.

What a replay cannot know: secrets were masked when the record was written, runs begin where the first of their records does, and
a retry that the policy would ask for has no answer.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import func, select

from proxy.app import App
from proxy.cli.report import moment, read_store
from proxy.cli.terminal import Terminal, cut, harmless, refused
from proxy.config.conversion import read_yaml
from proxy.config.settings import Settings, StoreSettings, UpstreamSettings
from proxy.errors import ConfigError, StoreUnavailable, UpstreamUnreachable
from proxy.exchange import Exchange, Usage
from proxy.language import amounts
from proxy.observe.recording import first_words, prices_of, question_of, would_of
from proxy.observe.stored_exchanges import answer_of, exchange_of
from proxy.pipeline import Pipeline
from proxy.policy.judge_keys import OLD_NAME
from proxy.policy.loading import load_policy
from proxy.ports.upstream import Call, Reply, Upstream
from proxy.store.reading import ReadOnlyDatabase
from proxy.store.records import PENDING, Record, RecordTexts, read
from proxy.store.tables import clean, records
from proxy.upstreams.making import model_prefixes

GROUPS = ("blocked", "warned", "unsure", "error", "passed", "unchecked", "edited", "asked")
"""What becomes of an exchange. It is in one of the first six; and beside that, if its request or answer is not what came, or somebody is
asked (the user, or the model once more), in one of the last two."""
_Ending = tuple[str, ...]
_OF_OUTCOME = {"block": "blocked", "warn": "warned", "pass": "passed", "skipped": "unchecked"}
_OF_WOULD = {"block": "blocked", "edit": "edited", "retry": "asked", "ask": "asked", "answer": "asked"}
_NO_BODIES = (
    "{count:,} exchanges since then, and bodies of none of them: a replay needs what was asked and answered. Set store.bodies: true, and"
    " store.texts: flagged or all, and wait for some"
)


_KEPT_OF_JUDGE = ("ask", "timeout_ms", "max_usd_per_day")
"""What a policy's judge is given by the policy, whichever model it is; all else was made for one model."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What to replay, through what, within which bounds."""

    policy: str | None = None
    """A file; None for each route's own."""
    judge: str | None = None
    """``UPSTREAM/MODEL``, in place of the policy's."""
    since: str = "1w"
    route: str | None = None
    limit: int = 200
    max_s: float = 600.0
    ask: bool = False
    """Whether judges and other models may be asked."""
    examples: int = 10


class Change(Struct, frozen=True):
    """An exchange that would end otherwise."""

    id: str
    before: str
    after: str
    why: str
    """Stage and code of what decides it now."""
    question: str
    """Its first words."""


class Outcome(Struct, kw_only=True):
    """What a replay found."""

    policy: str
    judge_asked: bool
    stored: int
    """Exchanges of the time, whether or not their bodies are there."""
    replayed: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Exchanges that were not replayed, by the reason."""
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    changed: int = 0
    prompt_tokens: dict[str, int] = field(default_factory=dict)
    """As clients sent them (``sent``), as they went upstream (``before``), as they would (``after``); all by Groundwire's own count."""
    prompt_usd: dict[str, float] = field(default_factory=dict)
    """Of the same prompts, by the list of prices, nothing of them from a cache."""
    judge: dict[str, float] = field(default_factory=dict)
    """What the judge was asked, and what that cost: ``questions``, ``input_tokens``, ``output_tokens``, ``usd``."""


class _Silent:
    """An upstream that answers nobody: a replay asks none, unless it is told to."""

    def __init__(self, name: str, prefix: str) -> None:
        self.name, self._prefix = name, prefix

    def catalogue_name(self, model: str) -> str:
        """As the real one's."""
        return self._prefix + model

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        """Nothing to close."""

    async def send(self, call: Call) -> Reply:
        """Raises `UpstreamUnreachable`."""
        raise UpstreamUnreachable("a replay asks nobody without --ask")


def tune(settings: Settings, wanted: Wanted, *, source: Path, as_json: bool) -> int:
    """Print it: 0, 1 where some could not be replayed or checked, 2 where there is nothing to replay. Raises `ConfigError`."""
    if settings.stored_knowledge:
        raise ConfigError(
            str(source), "knowledge.store", "is postgres, which a replay cannot read: write knowledge: {store: folder} for it"
        )
    since = moment(wanted.since, "--since", time.time())
    try:
        stored, rows = read_store(settings, source, lambda database: _rows(database, wanted, since))
    except StoreUnavailable as error:
        return refused(f"{harmless(str(error), 1000)}; --config names another configuration")
    if not rows:
        said = _NO_BODIES.format(count=stored) if stored else "no exchanges since then"
        return refused(f"{said}; --since looks further back")
    with tempfile.TemporaryDirectory(prefix="groundwire-tune-") as folder:
        replayed = asyncio.run(_replay(_shadowed(settings, wanted, {row.route for row in rows}, Path(folder)), wanted, stored, rows))
    if as_json:
        print(json.dumps(msgspec.to_builtins(replayed), indent=2))
    else:
        for line in lines(replayed):
            Terminal().line(line)
    return 1 if replayed.left_out or replayed.after.get("error", 0) > replayed.before.get("error", 0) else 0


async def _rows(database: ReadOnlyDatabase, wanted: Wanted, since: float) -> tuple[int, list[Record]]:
    """How many there are, and the newest of those with bodies, the oldest first. Raises `StoreUnavailable`."""
    c, columns = records.c, [column for column in records.columns if column.name != "size_bytes"]
    which = [c.created_at >= since, c.outcome != PENDING, c.model != ""]
    if wanted.route is not None:
        which.append(c.route == clean(wanted.route.rstrip("/")))
    query = select(*columns).where(*which, c.request_body.is_not(None)).order_by(c.created_at.desc(), c.id.desc()).limit(wanted.limit)
    async with database.transaction(60.0) as connection:
        stored = int(await connection.scalar(select(func.count()).select_from(records).where(*which)) or 0)
        found = (await connection.execute(query)).mappings().all()
    return stored, [Record(**{**row, "detail": msgspec.json.decode(row["detail"])}) for row in reversed(found)]


def _shadowed(settings: Settings, wanted: Wanted, prefixes: Collection[str], folder: Path) -> Settings:
    """The settings of the replay: a store in memory, no limits, the routes with these prefixes in shadow under the policy.

    Raises `ConfigError`.
    """
    routes = [route for route in settings.routes if route.prefix in prefixes]
    files = [Path(settings.folder) / route.policy if wanted.policy is None else Path(wanted.policy).resolve() for route in routes]
    if wanted.judge is not None:
        judged = [_with_judge(file, wanted.judge, settings, folder / str(number)) for number, file in enumerate(files)]
        if files and judged == files:
            raise ConfigError("command line", "--judge", "no policy that is replayed has a stage that asks one; claims does")
        files = judged
    return replace(
        settings,
        store=StoreSettings(url="sqlite://"),
        routes=tuple(replace(one, policy=str(file), allow_policies=(), enforce=False) for one, file in zip(routes, files, strict=True)),
        upstreams=settings.upstreams
        if wanted.ask
        else {n: replace(one, retries=replace(one.retries, attempts=0)) for n, one in settings.upstreams.items()},
        keys=(),
        teams={},
        limits=type(settings.limits)(),
        alerts=type(settings.alerts)(),
        tracing=None,
    )


def _with_judge(file: Path, judge: str, settings: Settings, copy: Path) -> Path:
    """A `copy` of the policy with this judge, a chat model; the policy itself where no stage asks one. Raises `ConfigError`."""
    upstream, _, model = judge.partition("/")
    if not model or upstream not in settings.upstreams:
        raise ConfigError("command line", "--judge", f"expected UPSTREAM/MODEL, with one of {', '.join(settings.upstreams)}")
    policy, raw = load_policy(file), read_yaml(file)
    if not any(spec.stage.judges(spec.options) for spec in policy.stages):
        return file
    own = msgspec.to_builtins(policy.judge) if policy.judge is not None else {}
    raw["judge"] = {"upstream": upstream, "model": model} | {name: own[name] for name in _KEPT_OF_JUDGE if name in own}
    raw.pop(OLD_NAME, None)
    copy.write_text(yaml.safe_dump(raw, sort_keys=False), "utf-8")
    return copy


async def _replay(settings: Settings, wanted: Wanted, stored: int, rows: Sequence[Record]) -> Outcome:
    prefixes = model_prefixes(settings)

    def silent(name: str, _: UpstreamSettings) -> Upstream:
        return _Silent(name, prefixes[name] or "")

    app = App(settings, make=None if wanted.ask else silent)
    until = time.monotonic() + wanted.max_s
    try:
        await app.database.start()
        await asyncio.to_thread(app.tokens.load)
        if wanted.ask:
            await asyncio.gather(*(upstream.upstream.start() for upstream in app.upstreams.values()))
        await app.load_models()
        found = Outcome(policy=", ".join(dict.fromkeys(route.default.label for route in app.routes)), judge_asked=wanted.ask, stored=stored)
        replaying = _Replaying(app, found, wanted.examples, prices_of(prefixes, app.tokens.model))
        for number, row in enumerate(rows):
            if time.monotonic() > until:
                found.left_out["the time was over"] = len(rows) - number
                break
            await replaying.add(row)
        return found
    finally:
        await app.stop()


class _Replaying:
    """Counts one exchange after the other."""

    def __init__(self, app: App, found: Outcome, examples: int, price: Callable[[str, str, Usage], float | None]) -> None:
        self._app, self._found, self._examples, self._price = app, found, examples, price
        self._routes = {route.prefix: route for route in app.routes}

    async def add(self, row: Record) -> None:
        """Replay it, and compare."""
        detail, route = read(row.detail, RecordTexts), self._routes.get(row.route)
        answer, why = answer_of(row, detail), ""
        if route is None:
            why = "its route is gone"
        elif answer is None:
            why = "no answer was stored, as it was refused before or failed"
        elif "upstream_error" in (row.outcome, *(verdict.outcome for verdict in detail.verdicts)):
            why = "its answer broke off, as the provider failed"
        else:
            try:
                exchange = exchange_of(row, detail, answer, route.default.label, route.upstream.upstream.catalogue_name(row.model))
            except (ValueError, TypeError, KeyError) as error:
                why = f"its body cannot be read ({type(error).__name__})"
        if why or route is None:
            self._found.left_out[why] = self._found.left_out.get(why, 0) + 1
        else:
            await self._replay(row, detail, exchange, route.default.pipeline)

    async def _replay(self, row: Record, detail: RecordTexts, exchange: Exchange, pipeline: Pipeline) -> None:
        try:
            await pipeline.answer(exchange)
            await pipeline.done(exchange)
            after, why = _after(exchange, pipeline.verdict(exchange))
        finally:
            pipeline.release(exchange)
        before = _before(row, detail)
        self._found.replayed += 1
        for counts, groups in ((self._found.before, before), (self._found.after, after)):
            for group in groups:
                counts[group] = counts.get(group, 0) + 1
        if before != after:
            self._found.changed += 1
            if len(self._found.changes) < self._examples:
                then, now = " and ".join(before), " and ".join(after)
                self._found.changes.append(Change(row.id, then, now, why, first_words(question_of(exchange))))
        await self._cost(row, detail, exchange)

    async def _cost(self, row: Record, detail: RecordTexts, exchange: Exchange) -> None:
        use, judge = exchange.facts.judge, self._found.judge
        if use is not None:
            for name, value in (("questions", use.asked), ("input_tokens", use.input_tokens), ("output_tokens", use.output_tokens)):
                judge[name] = judge.get(name, 0) + value
            judge["usd"] = judge.get("usd", 0.0) + (use.usd or 0.0)
        model, original = self._app.tokens.model(exchange.model), exchange.original
        then = detail.forwarded if detail.forwarded is not None else {"messages": original.messages, "tools": original.tools}
        prompts = {
            "sent": (original.messages, original.tools),
            "before": (then.get("messages", ()), then.get("tools", ())),
            "after": (exchange.messages, exchange.tools),
        }
        for name, (messages, tools) in prompts.items():  # counted alike, so that what differs is the policy's
            tokens = (await self._app.tokens.count_request(messages, tools, original.wants, model)).used_tokens
            self._found.prompt_tokens[name] = self._found.prompt_tokens.get(name, 0) + tokens
            if (usd := self._price(row.upstream, row.model, Usage(tokens, 0))) is not None:
                self._found.prompt_usd[name] = self._found.prompt_usd.get(name, 0.0) + usd


def _before(row: Record, detail: RecordTexts) -> _Ending:
    """What became of it."""
    act = _OF_WOULD.get(row.would, "")
    if act == "blocked" or row.outcome == "block":
        return ("blocked",)
    if detail.enforced and (detail.changes or detail.forwarded is not None or detail.delivered is not None):
        act = "edited"
    return tuple(filter(None, (_OF_OUTCOME.get(row.outcome, row.outcome), act)))


def _after(exchange: Exchange, verdict: str) -> tuple[_Ending, str]:
    """What would become of it, and what decides that: stage and code."""
    act = _OF_WOULD.get(would_of(exchange), "")
    outcome = "blocked" if act == "blocked" else _OF_OUTCOME.get(verdict, verdict)
    if act == "blocked":  # the first one would have ended it
        deciding = next((one for one in exchange.verdicts if one.would == "block"), None)
    else:
        deciding = next((one for one in reversed(exchange.verdicts) if one.outcome == verdict), None)
    why = ": ".join(filter(None, (deciding.stage, deciding.code))) if deciding is not None else ""
    return tuple(dict.fromkeys(filter(None, (outcome, act)))), why


def lines(found: Outcome) -> list[str]:
    """For a person."""
    asked = "models asked" if found.judge_asked else "no model asked but those of this process (--ask lets a judge be asked)"
    said = [f"{amounts.many(found.replayed, 'exchange')} of {found.stored:,} replayed through {harmless(found.policy)}; {asked}"]
    said += [f"  {count:,} left out: {why}" for why, count in found.left_out.items()]
    said += ["", f"{'':12}{'then':>8}{'now':>8}{'change':>9}"]
    for group in dict.fromkeys((*GROUPS, *found.before, *found.after)):
        then, now = found.before.get(group, 0), found.after.get(group, 0)
        if then or now:
            said.append(f"{group:12}{then:>8,}{now:>8,}{now - then:>+9,}")
    if found.prompt_tokens:
        said += ["", f"{'prompt tokens':16}{'as sent':>12}{'then':>12}{'now':>12}"]
        said.append(f"{'':16}" + "".join(f"{found.prompt_tokens[name]:>12,}" for name in ("sent", "before", "after")))
        if found.prompt_usd:
            said.append(
                f"{'list price':16}" + "".join(f"{amounts.dollars(found.prompt_usd[name]):>12}" for name in ("sent", "before", "after"))
            )
    if found.judge:
        tokens = f"{found.judge['input_tokens']:,.0f} + {found.judge['output_tokens']:,.0f} tokens"
        said.append(f"judge: {found.judge['questions']:,.0f} questions, {tokens}, {amounts.dollars(found.judge['usd'])}")
    said += ["", f"{amounts.many(found.changed, 'exchange')} would end otherwise" + (", as:" if found.changes else "")]
    for one in found.changes:
        said.append(f"  {one.id}  {one.before} -> {one.after}  {one.why}")
        said += [f"    {cut(harmless(one.question), 120)}"] if one.question else []
    return said
