"""``groundwire tune``: stored exchanges through another policy in shadow, and what would change, before anybody switches.

In: records with bodies, from the store opened read-only, and a policy. Each is made an exchange again, with its stored answer, and goes
through the shadow pipeline (`proxy.policy.shadow`) of an application whose store is in memory and whose upstreams answer nobody, unless
``--ask`` lets judges and stages ask them. Out: counts then and now, examples of what differs, tokens, cost.

What a replay cannot know: secrets were masked when the record was written, runs begin where the first of their records does, hints on
single messages are not stored, and a retry that the policy would ask for has no answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import func, select

from proxy.app import App
from proxy.cli.report import moment, read_store
from proxy.cli.terminal import Terminal, cut, harmless
from proxy.config.conversion import read_yaml
from proxy.config.settings import SHADOW, RouteSettings, Settings, StoreSettings, UpstreamSettings
from proxy.errors import ConfigError, StoreUnavailable, UpstreamUnreachable
from proxy.exchange import Answer, Choice, Exchange, Prompt, Request, Usage
from proxy.exchange.answers import OutputRequirements
from proxy.language import amounts
from proxy.observe.recording import first_words, prices_of, question_of, would_of
from proxy.pipeline import Pipeline
from proxy.policy.loading import load_policy
from proxy.ports.upstream import Call, Reply, Upstream
from proxy.server.routes import ActivePolicy
from proxy.store.reading import ReadOnlyDatabase
from proxy.store.records import PENDING, Record, RecordTexts, read
from proxy.store.tables import clean, records
from proxy.upstreams.making import model_prefixes
from proxy.wire import bodies
from proxy.wire.chat.output_requirements import output_requirements_of as of_chat
from proxy.wire.gemini.address import GENERATE
from proxy.wire.gemini.requests import output_requirements_of as of_gemini
from proxy.wire.messages.requests import output_requirements_of as of_messages
from proxy.wire.responses.dialect import output_requirements_of as of_responses

_READERS: Mapping[str, Callable[[Mapping[str, Any]], OutputRequirements]] = {
    GENERATE: of_gemini,
    "/messages": of_messages,
    "/responses": of_responses,
}
"""By path; that of chat completions reads what is of no other."""
_NOT_PARAMS = ("model", "messages", "tools", bodies.EXTENSION)
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
    since = moment(wanted.since, "--since", time.time())
    try:
        stored, rows = read_store(settings, source, lambda database: _rows(database, wanted, since))
    except StoreUnavailable as error:
        print(f"groundwire: {harmless(str(error), 1000)}; --config names another configuration", file=sys.stderr)
        return 2
    if not rows:
        said = _NO_BODIES.format(count=stored) if stored else "no exchanges since then"
        print(f"groundwire: {said}; --since looks further back", file=sys.stderr)
        return 2
    if settings.stored_knowledge:
        raise ConfigError(
            str(source), "knowledge.store", "is postgres, which a replay cannot read: write knowledge: {store: folder} for it"
        )
    with tempfile.TemporaryDirectory(prefix="groundwire-tune-") as folder:
        replayed = asyncio.run(_replay(_shadowed(settings, wanted, source, Path(folder)), wanted, stored, rows))
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


def _shadowed(settings: Settings, wanted: Wanted, source: Path, folder: Path) -> Settings:
    """The settings of the replay: a store in memory, no limits, every route in shadow under the policy. Raises `ConfigError`."""
    own = Path(settings.folder)

    def route(one: RouteSettings) -> RouteSettings:
        file = own / one.policy if wanted.policy is None else Path(wanted.policy).resolve()
        if wanted.judge is not None:
            upstream, slash, model = wanted.judge.partition("/")
            if not slash or not model or upstream not in settings.upstreams:
                raise ConfigError("command line", "--judge", f"expected UPSTREAM/MODEL, with one of {', '.join(settings.upstreams)}")
            load_policy(file)
            raw = read_yaml(file)
            raw["judge"] = {"upstream": upstream, "model": model}
            raw.pop("second_opinion", None)
            file = folder / f"{len(list(folder.iterdir()))}-{file.name}"
            file.write_text(yaml.safe_dump(raw, sort_keys=False), "utf-8")
        return replace(one, policy=str(file), allow_policies=(), enforce=False)

    quiet = (
        settings.upstreams
        if wanted.ask
        else {n: replace(one, retries=replace(one.retries, attempts=0)) for n, one in settings.upstreams.items()}
    )
    return replace(
        settings,
        store=StoreSettings(url="sqlite://"),
        routes=tuple(map(route, settings.routes)),
        upstreams=quiet,
        keys=(),
        teams={},
        limits=type(settings.limits)(),
        alerts=type(settings.alerts)(),
        tracing=None,
    )


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
        answer, why = _answer(row, detail), ""
        if route is None:
            why = "its route is gone"
        elif answer is None:
            why = "no answer was stored, as it was refused before or failed"
        else:
            try:
                exchange = _exchange(row, detail, answer, route.default, route.upstream.upstream.catalogue_name(row.model))
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


def _answer(row: Record, detail: RecordTexts) -> Answer | None:
    """As it came from the upstream; None where none is there."""
    try:
        choices = msgspec.convert(msgspec.json.decode(row.answer_body or b"{}").get("choices"), tuple[Choice, ...])
    except (msgspec.DecodeError, AttributeError):
        return None
    usage = Usage(detail.usage.prompt, detail.usage.completion, detail.usage.cached) if detail.usage is not None else None
    return Answer(choices, row.model, usage) if choices else None


def _exchange(row: Record, detail: RecordTexts, answer: Answer, policy: ActivePolicy, model: str) -> Exchange:
    """The exchange as it was before any stage saw it, but for what was masked. Raises `ValueError`, `TypeError`, `KeyError`."""
    body = msgspec.json.decode(row.request_body or b"")
    extension = body.get(bodies.EXTENSION)
    params = {name: value for name, value in body.items() if name not in _NOT_PARAMS}
    reader = _READERS.get(row.path, of_chat)
    request = Request(
        row.model,
        tuple(body["messages"]),
        tuple(body["tools"]),
        params,
        stream=row.stream,
        wants=reader(params),
        read_wants=reader,
        passages=bodies.passages_of(extension),
        has_context="context" in (extension or {}),
        size=len(row.request_body or b""),
    )
    exchange = Exchange(
        id=row.id,
        route=row.route,
        policy=policy.label,
        upstream=row.upstream,
        client=row.client.removesuffix(SHADOW) + SHADOW,
        original=request,
        model=model,
        prompt=Prompt(request.messages, request.tools, request.params, evidence=request.passages),
        run_id=row.run_id,
        step_id=row.step_id,
        skip=frozenset(detail.skip),
        enforced=False,
        received_at=row.created_at,
    )
    exchange.answer = exchange.upstream_answer = answer
    return exchange


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
    deciding = [one for one in exchange.verdicts if (one.would == "block" if act == "blocked" else one.outcome == verdict)]
    why = ": ".join(filter(None, (deciding[-1].stage, deciding[-1].code))) if deciding else ""
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
