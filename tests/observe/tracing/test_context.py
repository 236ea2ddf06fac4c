"""The W3C headers: which trace a request says that it belongs to. What goes on to the upstream is in `test_trees`."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.sections import TracingSettings
from proxy.observe.trace import Tracing
from proxy.observe.tracing import trace_id_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACING = Tracing({}, TracingSettings(endpoint="http://127.0.0.1:9"))


def header(value: str, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), (b"traceparent", value.encode()), *more]


def belongs(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether its trace is the one that is named, for the log and for its spans alike."""
    named, followed = trace_id_of(headers) == TRACE, TRACING.begin(headers).trace_id == TRACE
    assert named == followed
    return named


@pytest.mark.parametrize("flags", ["00", "01", "02", "03", "ff"])
def test_a_traceparent_names_the_trace_that_a_request_belongs_to(flags: str) -> None:
    assert belongs(header(f"00-{TRACE}-{SPAN}-{flags}"))


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert belongs(header(f"cc-{TRACE}-{SPAN}-01-what-comes-later"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01x",
    ],
)
def test_what_is_not_a_traceparent_names_none(value: str) -> None:
    assert not belongs(header(value))
    assert "" == trace_id_of(header(value))


def test_two_of_them_name_none() -> None:
    assert not belongs(header(f"00-{TRACE}-{SPAN}-01", (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())))


@given(st.lists(st.tuples(st.sampled_from([b"traceparent", b"tracestate", b"other"]), st.binary(max_size=60)), max_size=5))
def test_no_header_is_too_odd_to_be_looked_at(headers: list[tuple[bytes, bytes]]) -> None:
    assert TRACING.begin(headers).trace_id


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
def test_what_is_written_is_read(trace_id: int, span_id: int) -> None:
    assert f"{trace_id:032x}" == trace_id_of(header(f"00-{trace_id:032x}-{span_id:016x}-01"))


def test_a_clients_headers_write_no_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tracing = Tracing({}, TracingSettings(endpoint="http://127.0.0.1:9"), stop_s=0.1)
    tracing.start()
    caplog.set_level(logging.DEBUG)
    for state in (b"Vendor=1", b"x" * 600, b"vendor=1,vendor=2"):
        tracing.begin(header(f"00-{TRACE}-{SPAN}-01", (b"tracestate", state)))
    tracing.begin(header("0" * 1000))
    assert [] == caplog.records
    tracing._provider.shutdown()
