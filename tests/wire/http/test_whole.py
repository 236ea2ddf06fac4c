"""A whole response in one write: the same bytes as uvicorn's own two, or nothing at all."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.wire.http import asgi

Headers = list[tuple[bytes, bytes]]


class _Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def _cycle(method: str = "POST", *, keep_alive: bool = True) -> tuple[RequestResponseCycle, _Transport, list[bool]]:
    """A request whose response is awaited, what is written of that, and whether it was said to be complete."""
    transport, done = _Transport(), list[bool]()
    flow = FlowControl(transport)  # type: ignore[arg-type]
    log, scope = logging.getLogger("test"), {"type": "http", "method": method}
    cycle = RequestResponseCycle(
        scope=scope,  # type: ignore[arg-type]
        transport=transport,  # type: ignore[arg-type]
        flow=flow,
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[(b"server", b"here")],
        message_event=asyncio.Event(),
        expect_100_continue=True,
        keep_alive=keep_alive,
        on_response=lambda: done.append(True),
    )
    return cycle, transport, done


def _state(cycle: RequestResponseCycle, transport: _Transport, done: list[bool]) -> dict[str, Any]:
    """All that a response changes."""
    names = ("response_started", "response_complete", "waiting_for_100_continue", "keep_alive", "disconnected")
    found = {name: getattr(cycle, name) for name in names}
    return {**found, "bytes": b"".join(transport.written), "closed": transport.closed, "done": done, "set": cycle.message_event.is_set()}


async def _ordinary(cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> None:
    await cycle.send({"type": "http.response.start", "status": status, "headers": headers})
    await cycle.send({"type": "http.response.body", "body": body, "more_body": False})


_NAMES = st.one_of(
    st.sampled_from((b"x-request-id", b"Content-Type", b"connection", b"transfer-encoding", b"a b", b"")), st.binary(min_size=1, max_size=8)
)
_VALUES = st.one_of(st.sampled_from((b"close", b"chunked", b"", b"a\tb", b"\xff")), st.binary(max_size=12))


@given(
    method=st.sampled_from(("POST", "GET", "HEAD")),
    status=st.sampled_from((200, 204, 304, 404, 503, 599)),
    headers=st.lists(st.tuples(_NAMES, _VALUES), max_size=4),
    body=st.sampled_from((b"", b"{}", b"x" * 70_000)),
    keep_alive=st.booleans(),
)
def test_the_bytes_and_the_state_are_those_of_two_messages_to_uvicorn(
    method: str, status: int, headers: Headers, body: bytes, keep_alive: bool
) -> None:
    headers = [*((name, value) for name, value in headers if name.lower() != b"content-length"), (b"content-length", b"%d" % len(body))]

    async def both() -> None:
        here, there = _cycle(method, keep_alive=keep_alive), _cycle(method, keep_alive=keep_alive)
        if asgi.write_whole(here[0], status, headers, body):
            await _ordinary(there[0], status, headers, body)
            assert _state(*here) == _state(*there)
        else:
            assert _state(*here) == _state(*there)  # untouched

    asyncio.run(both())


async def test_an_ordinary_answer_leaves_with_one_write() -> None:
    cycle, transport, done = _cycle()
    assert asgi.write_whole(cycle, 200, [(b"content-type", b"text/plain"), (b"content-length", b"2")], b"hi")
    assert transport.written == [b"HTTP/1.1 200 OK\r\nserver: here\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi"]
    assert done == [True]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-a", b"1\r\nx-b: 2"),
        (b"x-a", b"1\nx-b: 2"),
        (b"x-a", b"\x00"),
        (b"x-a\r\nx-b", b"1"),
        (b"x a", b"1"),
        (b"connection", b"close"),
        (b"Transfer-Encoding", b"chunked"),
    ],
)
async def test_a_header_that_is_none_or_changes_the_connection_is_left_to_uvicorn(name: bytes, value: bytes) -> None:
    cycle, transport, _ = _cycle()
    assert not asgi.write_whole(cycle, 200, [(name, value), (b"content-length", b"0")], b"")
    assert transport.written == []


async def test_nothing_is_written_while_the_client_does_not_read() -> None:
    cycle, transport, _ = _cycle()
    cycle.flow.pause_writing()
    assert not asgi.write_whole(cycle, 200, [(b"content-length", b"0")], b"")
    assert transport.written == []


async def test_nothing_is_written_to_a_client_that_has_left() -> None:
    cycle, transport, _ = _cycle()
    cycle.disconnected = True
    assert not asgi.write_whole(cycle, 200, [(b"content-length", b"0")], b"")
    assert transport.written == []


async def test_a_request_that_took_the_offer_does_not_wait_for_the_garbage_collector() -> None:
    cycle, *_ = _cycle()
    asgi.offer_whole(cycle)
    gone: list[bool] = []
    weakref.finalize(cycle, gone.append, True)
    gc.disable()
    try:
        assert asgi.whole_writer(cycle.scope) is not None  # type: ignore[arg-type]
        del cycle, _
        assert gone == [True]
    finally:
        gc.enable()


async def test_other_servers_offer_nothing() -> None:
    assert asgi.whole_writer({"type": "http"}) is None
    assert asgi.whole_writer({"type": "http", "extensions": {"http.response.trailers": {}}}) is None
