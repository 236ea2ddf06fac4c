"""May this client's key do that, now? Its models and limits before a request, what it took after it.

In: a request whose client is known. Out: nothing, or `PolicyNotAllowed`, `RateLimited`, `Overloaded`, or `InvalidRequest` where readers may
find different models in a body; headers; and at the end, however that comes, a settlement and the figures of the key. Input is counted; of
output the client's own limit is reserved, or what answers of this key and model usually take. Where the first would pass a limit the second
has to do, if nothing else is open, cut to the limit itself. Of a stream that broke off, what came is counted.

What a response says of a key's limits stands in the names of the API that its client speaks: OpenAI's ``x-ratelimit-…``
(https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers) and Anthropic's ``anthropic-ratelimit-…``
(https://docs.anthropic.com/en/api/rate-limits#response-headers): of key and team, whichever has less left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from proxy.config.access import Clients
from proxy.config.keys import KeySettings
from proxy.config.settings import LocalSettings, Settings
from proxy.errors import InvalidRequest, PolicyNotAllowed, RateLimited
from proxy.exchange import Exchange, Request, Usage
from proxy.language.lru import LRU
from proxy.limits.account import micro
from proxy.limits.accounts import DatabaseAccounts
from proxy.limits.counter import NOTHING, Amount, Ask, Counter, Decision, Standing, Subject
from proxy.limits.keyring import KeyRing
from proxy.limits.keys import DatabaseKeyDays, DatabaseKeys
from proxy.limits.limiter import Lease, Limiter, Refused
from proxy.limits.spending import Spending
from proxy.observe.finished import Finished
from proxy.observe.metrics import Metrics
from proxy.observe.recording import Price
from proxy.offloop import run_in_thread_if_large
from proxy.ports import TokenCounter
from proxy.ports.upstream import Reply
from proxy.store.database import Database
from proxy.upstreams.resilience import Resilient
from proxy.wire.bodies import check_keys, check_model, object_in
from proxy.wire.dialect import Dialect
from proxy.wire.http.asgi import RawHeaders
from proxy.wire.messages.dialect import MessagesDialect

UPSTREAMS = ("x-ratelimit-", "anthropic-ratelimit-")
"""How the names of those begin by which an upstream tells of the operator's own account: none of a limited client's business."""
_PATIENT_S = 60.0
"""Client libraries try again by themselves; past this they are told not to."""


def limit_headers(subjects: Sequence[Subject], decision: Decision, *, anthropic: bool) -> tuple[tuple[str, str], ...]:
    """Limit, remaining and reset of requests and of tokens, as far as there are such limits."""
    found: list[tuple[str, str]] = []
    pairs = list(zip(subjects, decision.standings, strict=True))
    for kind, limit_of, taken_of in (("requests", "rpm", "requests"), ("tokens", "tpm", "tokens")):
        every = [(limit, max(0, limit - getattr(one, taken_of)), one) for s, one in pairs if (limit := getattr(s.limits, limit_of))]
        if not every:
            continue
        limit, remaining, standing = min(every, key=lambda one: one[1])
        values = {"limit": str(limit), "remaining": str(remaining), "reset": _reset(decision.at, standing, anthropic=anthropic)}
        names = "anthropic-ratelimit-{kind}-{what}" if anthropic else "x-ratelimit-{what}-{kind}"
        found += [(names.format(kind=kind, what=what), value) for what, value in values.items()]
    return tuple(found)


def retry_headers(wait_s: float, *, hopeless: bool = False) -> tuple[tuple[str, str], ...]:
    """When to try again; `hopeless` where no waiting helps."""
    retry = ("retry-after", str(max(1, math.ceil(wait_s))))
    return (retry, ("x-should-retry", "false")) if hopeless or wait_s > _PATIENT_S else (retry,)


def _reset(at: float, standing: Standing, *, anthropic: bool) -> str:
    """When all of it is free again: a time for Anthropic (RFC 3339), a duration for OpenAI."""
    if anthropic:
        return datetime.fromtimestamp(math.ceil(at + standing.reset_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{max(0.0, standing.reset_s):.3f}".rstrip("0").rstrip(".") + "s"


UNCOUNTED = (b"x-groundwire-limits", b"open;counter-away")
_FIRST_OUTPUT_TOKENS = 1024
"""Reserved for a key and model of which no answer has been seen, where the client gives no limit."""
_FADES = 0.98
"""What is usual follows the longest of some fifty answers: to reserve too much refuses late, too little overspends."""
_BYTES_A_TOKEN, _TOKENS_A_FILE = 4, 1000
"""Of a body that no dialect reads, and of a picture, sound or sealed thought in it: guesses, which the answer's own figures correct."""
_ENCODED, _ENCODED_BYTES = re.compile(rb"(?:data:[^,]{1,100},)?[\w+/=-]+"), 2000
"""What stands for a file: base64, and so long that it is no name."""
_KEYS_REMEMBERED = 10_000
_OTHER_MODELS = ("models", "fallbacks")
"""Fields by which OpenRouter and LiteLLM's proxy let another model answer than ``model``."""
_PER = {"rpm": "requests a minute", "tpm": "tokens a minute", "concurrent": "requests at a time"}


def _refusal(subjects: Sequence[Subject], refused: Refused, amount: Amount, *, anthropic: bool) -> RateLimited:
    subject, standing, name = refused.subject, refused.standing, refused.standing.refused or "rpm"
    limit = getattr(subject.limits, name)
    what = f"{limit} {_PER[name]}" if name in _PER else f"{limit:.12g} USD a {name.rpartition('_')[2]}"
    hopeless = name == "tpm" and amount.tokens > limit
    message = f"Rate limit reached for the {subject.kind} {subject.name!r}: {what}"
    message += f"; this request alone takes {amount.tokens}" if hopeless else f"; try again in {max(1, round(standing.wait_s))} s"
    headers = limit_headers(subjects, refused.decision, anthropic=anthropic)
    return RateLimited(message, param=name, headers=(*retry_headers(standing.wait_s, hopeless=hopeless), *headers))


class Admissions:
    """For all keys of one process."""

    def __init__(
        self,
        ring: KeyRing,
        limiter: Limiter,
        spending: Spending,
        tokens: TokenCounter,
        price: Price,
        free: frozenset[str],
        metrics: Metrics,
    ) -> None:
        """`free` are the upstreams that cost nothing."""
        self.ring, self.limiter, self.spending, self.tokens = ring, limiter, spending, tokens
        self.price, self.free, self.metrics = price, free, metrics
        self.usual: LRU[int] = LRU(_KEYS_REMEMBERED)
        """Output tokens, by key and model."""

    async def start(self) -> None:
        """Read the keys; count from now on."""
        await self.ring.start()
        await self.limiter.start()
        await self.spending.start()

    async def stop(self) -> None:
        """Hand on what is left."""
        await self.ring.stop()
        await self.limiter.stop()
        await self.spending.stop()

    def of(self, client: str, exchange_id: str, upstream: Resilient) -> Admission | None:
        """For one request of a client; None where it has no key."""
        key = self.ring.key(client)
        return Admission(self, key, exchange_id, upstream) if key is not None else None

    async def admit_call(self, client: str, call_id: str) -> None:
        """A call that the proxy answers itself, as at ``/mcp``: a request of the key. Raises `RateLimited`, `Overloaded`."""
        key = self.ring.key(client)
        if key is not None and (subjects := self.ring.subjects(key)):
            self.limiter.settle(await self.reserve(call_id, key, subjects, Ask()), NOTHING)

    async def reserve(self, lease_id: str, key: KeySettings, subjects: tuple[Subject, ...], ask: Ask, *, anthropic: bool = False) -> Lease:
        """For a request of a key. Raises `RateLimited`, and `Overloaded` where nobody can count it and a limit is closed then."""
        try:
            return await self.limiter.reserve(lease_id, subjects, ask)
        except Refused as refused:
            self.metrics.key(key.team, key.name).refused(refused.standing.refused or "")
            raise _refusal(subjects, refused, ask.least, anthropic=anthropic) from None


def make_counter(settings: Settings, database: Database) -> Counter:
    """Who counts over all processes, as ``limits:`` has it."""
    if not settings.limits.url:
        return DatabaseAccounts(database)
    from proxy.limits.valkey import ValkeyAccounts

    return ValkeyAccounts(settings.limits.url)


def make_admissions(
    settings: Settings, database: Database, counter: Counter, clients: Clients, tokens: TokenCounter, price: Price, metrics: Metrics
) -> Admissions | None:
    """As the settings have it; None where clients have no keys."""
    if not settings.keyed:
        return None
    limiter = Limiter(counter, settings.limits, metrics)
    ring = KeyRing(clients, settings.teams, DatabaseKeys(database) if settings.store.keys else None)
    free = frozenset(name for name, upstream in settings.upstreams.items() if isinstance(upstream, LocalSettings))
    return Admissions(ring, limiter, Spending(DatabaseKeyDays(database), database.clock), tokens, price, free, metrics)


class Admission:
    """Of one request."""

    def __init__(self, every: Admissions, key: KeySettings, exchange_id: str, upstream: Resilient) -> None:
        self._every, self._key, self._id, self._upstream = every, key, exchange_id, upstream
        self._lease: Lease | None = None
        self._refused = False
        self.asked = self.ended = False
        """Whether an upstream was asked, and whether the request was settled."""
        self.model = ""
        """As the client named it, where its body was read."""
        self._tier = ""
        """Of service, as it asked for."""
        self._input_tokens = 0
        self._unseen_output_tokens: int | None = None
        """Most tokens of an answer that the provider writes behind the request's back; None where the answer comes with the response."""
        self.headers: RawHeaders = []
        """What the response says of it."""

    @property
    def reads(self) -> bool:
        """Whether a body that no dialect reads has to be looked at."""
        return bool(self._key.models) or bool(self._every.ring.subjects(self._key))

    @property
    def counts(self) -> bool:
        """Whether somebody counts it."""
        return self._lease is not None

    @property
    def needs_one_reading(self) -> bool:
        """Whether every reader has to find the same in a body: its model is looked at, or it is paid for by what stands in it."""
        return bool(self._key.models) or self._counts_tokens

    @property
    def _counts_tokens(self) -> bool:
        return any(subject.limits.tpm is not None or subject.limits.in_usd for subject in self._every.ring.subjects(self._key))

    @property
    def estimate(self) -> Usage | None:
        """What an answer that no dialect reads took, where it does not say so; None where its body was not counted."""
        return Usage(self._input_tokens, 0, estimated=True) if self._input_tokens else None

    async def admit(self, request: Request, dialect: Dialect) -> None:
        """A request of a dialect."""
        self._check_model(request.model, request.params)
        subjects = self._every.ring.subjects(self._key)
        if not subjects:
            return
        output = 0, 0
        if self._counts_tokens:
            info = self._every.tokens.model(self._upstream.upstream.catalogue_name(request.model))
            use = await self._every.tokens.count_request(request.messages, request.tools, request.wants, info)
            self._input_tokens = use.used_tokens
            output = self._output(request, info.max_output_tokens)
        await self._reserve(subjects, output, dialect)

    async def admit_body(self, body: bytes, dialect: Dialect) -> None:
        """A body that no dialect reads, as of embeddings."""
        fields, tokens = await run_in_thread_if_large(len(body), _look_at, body)
        model = fields.get("model") if fields is not None else None
        if fields is not None and self.needs_one_reading:
            await run_in_thread_if_large(len(body), check_keys, body, "input")
        if body:
            self._check_model(check_model(model) if isinstance(model, str) else "", fields or {})
        if subjects := self._every.ring.subjects(self._key):
            self._input_tokens = tokens
            usual = (self._every.usual.get((self._key.name, self.model)) or 0) if body else 0
            await self._reserve(subjects, (usual, usual), dialect)

    def _check_model(self, model: str, fields: Mapping[str, Any]) -> None:
        """Raises `InvalidRequest`, `PolicyNotAllowed`. `fields` are the body's."""
        self.model, tier = model, fields.get("service_tier")
        self._tier = tier if isinstance(tier, str) else ""
        if self._key.models:
            if not model:
                raise InvalidRequest("the key is for some models only, and this body names none that can be read", param="model")
            if not any(fnmatchcase(model, pattern) for pattern in self._key.models):
                raise PolicyNotAllowed(f"the key {self._key.name!r} may not use the model {model[:100]!r}", param="model")
        if self.needs_one_reading and (others := next((name for name in _OTHER_MODELS if fields.get(name)), "")):
            message = f"{others}: another model may answer then, and the key {self._key.name!r} is limited to models or in what it may take"
            raise PolicyNotAllowed(message, param=others)

    def _output(self, request: Request, most: int | None) -> tuple[int, int]:
        """Tokens of the answer: as many as it may have, and as it probably has. Raises `InvalidRequest`."""
        asked, usual = request.wants.max_output_tokens, self._every.usual.get((self._key.name, request.model))
        if request.params.get("background"):  # some servers take "true", or 1, for it
            self._unseen_output_tokens = asked or most
            if self._unseen_output_tokens is None:
                message = "a response in the background counts with all that it may take, and this model has no limit that is known here"
                raise InvalidRequest(f"{message}: give one", param=request.wants.limit_field)
            return self._unseen_output_tokens, self._unseen_output_tokens
        expected = min(most or _FIRST_OUTPUT_TOKENS, _FIRST_OUTPUT_TOKENS) if usual is None else usual
        choices = max(1, request.wants.choices)
        return (asked or expected) * choices, min(asked or expected, expected) * choices

    async def _reserve(self, subjects: tuple[Subject, ...], output: tuple[int, int], dialect: Dialect) -> None:
        ask = self._ask(subjects, output)
        anthropic = isinstance(dialect, MessagesDialect)
        try:
            self._lease = await self._every.reserve(self._id, self._key, subjects, ask, anthropic=anthropic)
        except RateLimited:
            self._refused = True
            raise
        if self._lease.decision is None:
            self.headers = [UNCOUNTED]
        else:
            headers = limit_headers(subjects, self._lease.decision, anthropic=anthropic)
            self.headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers]

    def _ask(self, subjects: Sequence[Subject], output: tuple[int, int]) -> Ask:
        """What to reserve. Raises `PolicyNotAllowed` where it cannot be priced, and a limit of money refuses what nobody can count."""
        full, least = self._input_tokens + output[0], _cut(self._input_tokens, output[1], [s.limits.tpm for s in subjects])
        priced = [subject for subject in subjects if subject.limits.in_usd] if self._upstream.name not in self._every.free else []
        if not priced:
            return Ask(Amount(full), Amount(least))
        input_usd, full_usd, least_usd = map(self._most_usd, (0, *output))
        if input_usd is None or full_usd is None or least_usd is None:
            if any(self._every.limiter.settings.closed(subject.limits) for subject in priced):
                message = f"no price is known for the model {self.model[:100]!r}, and this key has a limit in USD (limits.on_error)"
                raise PolicyNotAllowed(message, param="model")
            return Ask(Amount(full), Amount(least))
        most = [None if usd is None else micro(usd) for s in priced for usd in (s.limits.usd_per_day, s.limits.usd_per_month)]
        least_micro_usd = _cut(micro(input_usd), micro(least_usd) - micro(input_usd), most)
        return Ask(Amount(full, micro(full_usd)), Amount(least, least_micro_usd))

    def _most_usd(self, output_tokens: int) -> float | None:
        """What so long an answer may cost: the tier that the request names is not always the one it gets."""
        usd = [self._usd(Usage(self._input_tokens, output_tokens, tier=tier)) for tier in ("", self._tier)]
        return None if usd[0] is None else max(one or 0.0 for one in usd)

    def _usd(self, usage: Usage, upstream: str = "") -> float | None:
        return self._every.price(upstream or self._upstream.name, self.model, usage)

    def end(self, finished: Finished, replies: Sequence[Reply]) -> None:
        """It is over."""
        self.ended = True
        usage, known = self._taken(finished, replies)
        model = finished.exchange.original.model if finished.exchange is not None else finished.model or self.model
        self.model = model or self.model
        usd = finished.usd if finished.usd is not None else self._usd(usage, finished.upstream) if usage.prompt_tokens or known else 0.0
        usd = usd or 0.0
        micro_usd = self._every.spending.micro_usd(self._key.name, usd)
        if self._lease is not None:
            reserved = self._lease.reserved
            tokens = usage.prompt_tokens + usage.completion_tokens
            self._every.limiter.settle(self._lease, Amount(tokens, micro_usd) if known else reserved)
        if finished.method != "POST":
            return
        figures = self._every.metrics.key(self._key.team, self._key.name)
        figures.took(usage, usd, refused=self._refused)
        sums = int(not self._refused), int(self._refused), usage.prompt_tokens, usage.completion_tokens, micro_usd
        self._every.spending.add(self._key.name, self._key.team, self.model, sums)

    def _taken(self, finished: Finished, replies: Sequence[Reply]) -> tuple[Usage, bool]:
        """What it took, and whether that is known: else it is what was reserved."""
        exchange = finished.exchange
        answered = any(200 <= reply.status < 300 for reply in replies)
        if not answered:  # an upstream's error costs nothing; who left before an answer came may have to pay for it
            return Usage(0, 0), not (self.asked and not replies and finished.error is None)
        if exchange is None:
            usage = finished.usage or Usage(0, 0, estimated=True)
            return usage, not usage.estimated
        answer = exchange.upstream_answer if exchange.upstream_answer is not None else exchange.answer
        if answer is None or finished.usage is None:
            return Usage(self._input_tokens, 0), False
        found = finished.usage
        if found.estimated and self._unseen_output_tokens is not None:  # it goes on being written, whoever reads it
            return Usage(max(self._input_tokens, found.prompt_tokens), self._unseen_output_tokens), True
        if not exchange.attempts.several:
            self._learn(exchange, found, len(answer.choices))
        return found, True

    def _learn(self, exchange: Exchange, usage: Usage, choices: int) -> None:
        """What answers of this key and model usually take, each choice."""
        by, output = (self._key.name, exchange.original.model), usage.completion_tokens // max(1, choices)
        self._every.usual.put(by, max(output, int((self._every.usual.get(by) or 0) * _FADES)))


def _cut(needed: int, expected: int, limits: Sequence[int | None]) -> int:
    """`needed` and what is `expected` beside it, which is cut where both alone would pass a limit."""
    return max(needed, min([needed + expected, *(limit for limit in limits if limit is not None)]))


def _look_at(body: bytes) -> tuple[dict[str, Any] | None, int]:
    """A body's fields, if it is an object, and about how many tokens it has: the bytes of files are no words."""
    files = [len(text) for text in body.split(b'"') if len(text) >= _ENCODED_BYTES and _ENCODED.fullmatch(text)]
    return object_in(body), (len(body) - sum(files)) // _BYTES_A_TOKEN + _TOKENS_A_FILE * len(files)


def without_upstreams(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """An upstream's headers, without what they tell of the operator's own limits."""
    return [(name, value) for name, value in headers if not name.startswith(UPSTREAMS)]
