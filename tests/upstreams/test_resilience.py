"""Retries, fallbacks and the cap, against an upstream that says what it is told to."""

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator

import pytest

from proxy.config.settings import Retries
from proxy.errors import Overloaded, ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Call, Headers
from proxy.testing import CountedNames
from proxy.upstreams.resilience import Resilient, Slots, backoff_s, retry_after_s

CALL = Call("POST", "/chat/completions", (), b"{}")
QUICK = Retries(attempts=2, base_s=1e-6, max_s=1e-3)


class FakeReply:
    """A `proxy.ports.upstream.Reply` with one piece of body; `broken` fails after it."""

    def __init__(self, status: int, headers: Headers = (), upstream: str = "", broken: bool = False) -> None:
        self.status, self.headers, self.upstream, self.attempts = status, headers, upstream, 1
        self.broken, self.closed = broken, 0

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"first"
        if self.broken:
            raise UpstreamUnreachable("broke off")

    async def close(self) -> None:
        self.closed += 1


class FakeUpstream:
    """A `proxy.ports.upstream.Upstream` that gives (or raises) what it is told to; the last one repeats. `gate` holds every call."""

    def __init__(self, name: str, *says: FakeReply | ProxyError, gate: asyncio.Event | None = None) -> None:
        self.name, self._says, self._gate = name, list(says), gate
        self.calls: list[Call] = []

    def catalogue_name(self, model: str) -> str:
        return model

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send(self, call: Call) -> FakeReply:
        self.calls.append(call)
        if self._gate is not None:
            await self._gate.wait()
        said = self._says.pop(0) if len(self._says) > 1 else self._says[0]
        if isinstance(said, ProxyError):
            raise said
        said.upstream = self.name
        return said


def resilient(
    upstream: FakeUpstream,
    retries: Retries = QUICK,
    slots: Slots | None = None,
    fallback: tuple[str, ...] = (),
    counters: CountedNames | None = None,
) -> Resilient:
    return Resilient(upstream, retries, slots or Slots(8, 8), fallback, counters or CountedNames())


# ---- retries ----


async def test_a_call_that_the_server_has_read_is_not_made_again() -> None:
    error = UpstreamUnreachable("closed before an answer")
    error.repeatable = False
    upstream = FakeUpstream("a", error, FakeReply(200))
    with pytest.raises(UpstreamUnreachable):
        await resilient(upstream).send(CALL, {})
    assert [CALL] == upstream.calls


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 520, 524, 529])
async def test_a_status_that_may_pass_is_tried_again(status: int) -> None:
    refused, good = FakeReply(status), FakeReply(200)
    upstream, counters = FakeUpstream("a", refused, good), CountedNames()
    reply = await resilient(upstream, counters=counters).send(CALL, {})
    assert (200, 2, [CALL, CALL]) == (reply.status, reply.attempts, upstream.calls)
    assert (1, {"upstream.retry_count": 1}) == (refused.closed, counters.counts)


async def test_a_connection_error_is_tried_again() -> None:
    upstream = FakeUpstream("a", UpstreamUnreachable("no"), UpstreamUnreachable("no"), FakeReply(200))
    reply = await resilient(upstream).send(CALL, {})
    assert (200, 3) == (reply.status, reply.attempts)


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 409, 422, 501])
async def test_any_other_status_is_final(status: int) -> None:
    upstream = FakeUpstream("a", FakeReply(status))
    reply = await resilient(upstream).send(CALL, {})
    assert (status, 1, 1) == (reply.status, reply.attempts, len(upstream.calls))


@pytest.mark.parametrize("error", [UpstreamTimeout("slow"), Overloaded("full")])
async def test_a_timeout_or_a_full_queue_is_not_tried_again(error: ProxyError) -> None:
    upstream = FakeUpstream("a", error)
    with pytest.raises(type(error)):
        await resilient(upstream).send(CALL, {})
    assert 1 == len(upstream.calls)


async def test_when_the_tries_are_used_up_the_last_reply_passes_unchanged() -> None:
    last = FakeReply(503, (("x-request-id", "3"), ("retry-after", "0")))
    upstream = FakeUpstream("a", FakeReply(500), FakeReply(502), last)
    reply = await resilient(upstream).send(CALL, {})
    assert (503, last.headers, 3, b"first", 0) == (reply.status, reply.headers, reply.attempts, await reply.read(), last.closed)


async def test_when_the_tries_are_used_up_the_last_error_is_raised() -> None:
    upstream = FakeUpstream("a", UpstreamUnreachable("1"), UpstreamUnreachable("2"), UpstreamUnreachable("3"))
    with pytest.raises(UpstreamUnreachable, match="3"):
        await resilient(upstream).send(CALL, {})


async def test_without_tries_there_is_one_call() -> None:
    upstream = FakeUpstream("a", FakeReply(500))
    await resilient(upstream, Retries(attempts=0)).send(CALL, {})
    assert 1 == len(upstream.calls)


async def _pieces() -> AsyncIterator[bytes]:
    yield b"{}"


@pytest.mark.parametrize("call", [Call("POST", "/files", (), _pieces(), raw=True), Call("POST", "/responses", (), b"{}", raw=True)])
async def test_a_pass_through_is_called_once(call: Call) -> None:
    upstream = FakeUpstream("a", FakeReply(503))
    assert 503 == (await resilient(upstream).send(call, {})).status
    assert 1 == len(upstream.calls)


async def test_a_stream_that_breaks_after_its_first_byte_is_not_tried_again() -> None:
    upstream = FakeUpstream("a", FakeReply(200, broken=True))
    reply = await resilient(upstream, fallback=("b",)).send(CALL, {"b": resilient(FakeUpstream("b", FakeReply(200)))})
    with pytest.raises(UpstreamUnreachable, match="broke off"):
        await reply.read()
    assert 1 == len(upstream.calls)


# ---- how long it waits ----


@pytest.mark.parametrize("header", [("retry-after", "0.002"), ("retry-after-ms", "2")])
async def test_it_waits_as_long_as_the_server_asks(header: tuple[str, str]) -> None:
    upstream = FakeUpstream("a", FakeReply(429, (header,)), FakeReply(200))
    before = time.monotonic()
    reply = await resilient(upstream, Retries(attempts=1, base_s=1e-6, max_s=5)).send(CALL, {})
    assert 200 == reply.status
    assert time.monotonic() - before >= 0.002


@pytest.mark.parametrize(
    "header", [("retry-after", "60"), ("retry-after-ms", "60000"), ("retry-after", email.utils.formatdate(time.time() + 3600, usegmt=True))]
)
async def test_a_longer_wait_than_allowed_is_left_to_the_client(header: tuple[str, str]) -> None:
    upstream = FakeUpstream("a", FakeReply(429, (header,)))
    reply = await resilient(upstream).send(CALL, {})
    assert (429, (header,), 1) == (reply.status, reply.headers, len(upstream.calls))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((), None),
        ((("retry-after", "7"),), 7.0),
        ((("retry-after", "0"),), 0.0),
        ((("retry-after", "-3"),), 0.0),
        ((("retry-after-ms", "1500"), ("retry-after", "9")), 1.5),
        ((("retry-after-ms", "soon"), ("retry-after", "9")), 9.0),
        ((("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT"),), 30.0),
        ((("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"),), 0.0),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "nan"),), None),
        ((("retry-after", "inf"),), float("inf")),
        ((("retry-after", ""),), None),
        ((("retry-after", "Wed, 99 Oct 99999 07:28:30 GMT"),), None),
    ],
)
def test_what_a_retry_after_header_asks_for(headers: Headers, seconds: float | None) -> None:
    assert seconds == retry_after_s(headers, now=1445412480.0)  # 2015-10-21 07:28:00 GMT


def test_the_backoff_doubles_up_to_its_limit() -> None:
    retries = Retries(base_s=0.5, max_s=3.0)
    for attempt, ceiling in ((1, 0.5), (2, 1.0), (3, 2.0), (4, 3.0), (5000, 3.0)):
        pauses = [backoff_s(attempt, retries) for _ in range(200)]
        assert 0.0 <= min(pauses)
        assert ceiling / 2 < max(pauses) <= ceiling


# ---- fallbacks ----


async def test_fallbacks_are_tried_in_their_order_and_all_tries_are_counted() -> None:
    first, second, third = (
        FakeUpstream(name, said) for name, said in (("a", FakeReply(503)), ("b", UpstreamUnreachable("no")), ("c", FakeReply(200)))
    )
    others, counters = {"b": resilient(second), "c": resilient(third)}, CountedNames()
    reply = await resilient(first, fallback=("b", "c"), counters=counters).send(CALL, others)
    assert (200, "c") == (reply.status, reply.upstream)
    assert [3, 3, 1] == [len(u.calls) for u in (first, second, third)]
    assert 2 == counters.counts["upstream.fallback_count"]


async def test_a_reply_after_fallbacks_says_how_many_calls_it_took() -> None:
    others = {"b": resilient(FakeUpstream("b", UpstreamUnreachable("no"))), "c": resilient(FakeUpstream("c", FakeReply(200)))}
    reply = await resilient(FakeUpstream("a", FakeReply(503)), fallback=("b", "c")).send(CALL, others)
    assert 3 + 3 + 1 == reply.attempts


async def test_a_final_answer_needs_no_fallback() -> None:
    other = FakeUpstream("b", FakeReply(200))
    reply = await resilient(FakeUpstream("a", FakeReply(400)), fallback=("b",)).send(CALL, {"b": resilient(other)})
    assert (400, "a", []) == (reply.status, reply.upstream, other.calls)


async def test_a_chain_that_is_used_up_gives_the_last_reply_unchanged() -> None:
    last = FakeReply(502, (("x-request-id", "b"),))
    others = {"b": resilient(FakeUpstream("b", last))}
    reply = await resilient(FakeUpstream("a", FakeReply(500)), fallback=("b",)).send(CALL, others)
    assert (502, last.headers, "b", b"first") == (reply.status, reply.headers, reply.upstream, await reply.read())


async def test_a_chain_that_is_used_up_raises_the_last_error() -> None:
    others = {"b": resilient(FakeUpstream("b", UpstreamUnreachable("b is away")))}
    with pytest.raises(UpstreamUnreachable, match="b is away"):
        await resilient(FakeUpstream("a", FakeReply(500)), fallback=("b",)).send(CALL, others)


@pytest.mark.parametrize("status", [401, 402, 403])
@pytest.mark.parametrize(("forwards", "expected"), [(False, 200), (True, None)])
async def test_a_refused_key_goes_to_the_fallback_unless_it_is_the_clients(status: int, forwards: bool, expected: int | None) -> None:
    first, other = FakeUpstream("a", FakeReply(status)), resilient(FakeUpstream("b", FakeReply(200)))
    one = Resilient(first, QUICK, Slots(8, 8), ("b",), CountedNames(), forwards=forwards)
    reply = await one.send(CALL, {"b": other})
    assert (expected or status, 1) == (reply.status, len(first.calls))


async def test_a_full_queue_goes_to_the_fallback() -> None:
    others = {"b": resilient(FakeUpstream("b", FakeReply(200)))}
    full = Slots(1, 0)
    full.take()
    reply = await resilient(FakeUpstream("a", FakeReply(200)), slots=full, fallback=("b",)).send(CALL, others)
    assert (200, "b") == (reply.status, reply.upstream)


async def test_a_time_out_goes_to_the_fallback_at_once() -> None:
    first, others = FakeUpstream("a", UpstreamTimeout("slow")), {"b": resilient(FakeUpstream("b", FakeReply(200)))}
    reply = await resilient(first, fallback=("b",)).send(CALL, others)
    assert (200, "b", 2, 1) == (reply.status, reply.upstream, reply.attempts, len(first.calls))


async def test_places_are_given_back_along_the_chain() -> None:
    slots_a, slots_b = Slots(1, 0), Slots(1, 0)
    others = {"b": resilient(FakeUpstream("b", FakeReply(200)), slots=slots_b)}
    reply = await resilient(FakeUpstream("a", FakeReply(500)), slots=slots_a, fallback=("b",)).send(CALL, others)
    assert (True, False) == (slots_a.take(), slots_b.take())
    await reply.close()
    assert slots_b.take()


@pytest.mark.parametrize(
    ("status", "said", "calls"), [(503, "false", 1), (503, "true", 3), (503, "", 3), (409, "true", 3), (409, "", 1), (200, "true", 1)]
)
async def test_a_server_says_itself_whether_to_ask_again(status: int, said: str, calls: int) -> None:
    upstream = FakeUpstream("a", FakeReply(status, (("x-should-retry", said),) if said else ()))
    await resilient(upstream).send(CALL, {})
    assert calls == len(upstream.calls)


async def test_what_is_not_asked_again_may_still_be_anothers() -> None:
    others = {"b": resilient(FakeUpstream("b", FakeReply(200)))}
    reply = await resilient(FakeUpstream("a", FakeReply(529, (("x-should-retry", "false"),))), fallback=("b",)).send(CALL, others)
    assert (200, "b", 2) == (reply.status, reply.upstream, reply.attempts)
