"""The W3C headers: what is read from a request, what goes on to the upstream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.observe.tracing.context import SpanContext, parent_of, passed_on

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def header(value: str, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), (b"traceparent", value.encode()), *more]


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_a_traceparent_names_the_span_that_a_request_comes_from(flags: str, sampled: bool) -> None:
    assert SpanContext(int(TRACE, 16), int(SPAN, 16), sampled) == parent_of(header(f"00-{TRACE}-{SPAN}-{flags}"))


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert SpanContext(int(TRACE, 16), int(SPAN, 16), True) == parent_of(header(f"cc-{TRACE}-{SPAN}-01-what-comes-later"))


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
def test_what_is_not_a_traceparent_is_none(value: str) -> None:
    assert parent_of(header(value)) is None


def test_two_of_them_are_none() -> None:
    assert parent_of(header(f"00-{TRACE}-{SPAN}-01", (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode()))) is None


@given(st.lists(st.tuples(st.sampled_from([b"traceparent", b"tracestate", b"other"]), st.binary(max_size=60)), max_size=5))
def test_no_header_is_too_odd_to_be_looked_at(headers: list[tuple[bytes, bytes]]) -> None:
    found = parent_of(headers)
    assert found is None or found.trace_id


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read_again(trace_id: int, span_id: int, sampled: bool) -> None:
    context = SpanContext(trace_id, span_id, sampled)
    assert context == parent_of(header(context.traceparent))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["vendor=1,other=2"], "vendor=1,other=2"),
        (["vendor=1 , t61rcwkgmze@other=a b"], "vendor=1,t61rcwkgmze@other=a b"),
        (["vendor=1", "other=2"], "vendor=1,other=2"),
        (["vendor=1,,other=2"], "vendor=1,other=2"),
        (["vendor=1,vendor=2"], ""),
        (["Vendor=1"], ""),
        (["vendor"], ""),
        (["vendor=\u00e9"], ""),
        ([",".join(f"k{i}=1" for i in range(33))], ""),
    ],
)
def test_a_tracestate_is_kept_when_it_is_one(values: list[str], expected: str) -> None:
    found = parent_of(header(f"00-{TRACE}-{SPAN}-01", *((b"tracestate", value.encode()) for value in values)))
    assert expected == (found.state if found else None)


CALLER = SpanContext(int(TRACE, 16), 1, True)


def test_the_upstream_is_called_from_the_span_of_its_call() -> None:
    headers = [("a", "1"), ("traceparent", "theirs"), ("tracestate", "x=1"), ("b", "2")]
    assert [("a", "1"), ("tracestate", "x=1"), ("b", "2"), ("traceparent", f"00-{TRACE}-0000000000000001-01")] == passed_on(
        headers, CALLER, continued=True
    )


def test_a_tracestate_without_its_trace_does_not_go_on() -> None:
    headers = [("traceparent", "nonsense"), ("tracestate", "x=1"), ("b", "2")]
    assert ["b", "traceparent"] == [name for name, _ in passed_on(headers, CALLER, continued=False)]
