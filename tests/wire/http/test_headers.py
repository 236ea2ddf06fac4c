"""The values of Groundwire's headers: short, ASCII, and never cut in the middle of something."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import InvalidRequest
from proxy.exchange import CompressionResult, ContextUse, Facts, ToolSelection, Verdict
from proxy.stages.registry import STAGES
from proxy.wire.http.headers import MAX_VALUE_BYTES, RequestHints, ResponseHeaders, ascii_value, client_headers, parse_hints, plain_headers

WRITE = ResponseHeaders(header for stage in STAGES for header in stage.headers)
LEGAL = re.compile(rb"(?:[A-Za-z0-9._~@,;:/+> =()*-]|%[0-9A-F]{2})*")
CODES = st.lists(st.from_regex(r"[a-z_]{1,40}", fullmatch=True), max_size=60)


@given(st.text())
def test_a_value_is_short_and_ascii_whatever_the_text(text: str) -> None:
    value = ascii_value(text)
    assert len(value) <= MAX_VALUE_BYTES < 256
    assert LEGAL.fullmatch(value), value


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=20))
def test_a_short_value_can_be_decoded_again(text: str) -> None:
    assert text == unquote(ascii_value(text).decode("ascii"))


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=80))
def test_a_long_value_is_cut_at_a_whole_character(text: str) -> None:
    assert text.startswith(unquote(ascii_value(text).decode("ascii"), errors="strict"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pass", b"pass"),
        ("trim+summarize;8210->4877;1.7x", b"trim+summarize;8210->4877;1.7x"),
        ("Grüße", b"Gr%C3%BC%C3%9Fe"),
        ("100%", b"100%25"),
        ("a\r\nset-cookie: x", b"a%0D%0Aset-cookie: x"),
        ("a\0b", b"a%00b"),
        ("\udcff", b"%3F"),
        pytest.param("é" * 100, b"%C3%A9" * 42, id="cut at a whole character"),
        ("x" * 300, b"x" * 255),
        ("x" * 254 + "é", b"x" * 254),
        ("x" * 253 + "é", b"x" * 253),
        ("x" * 252 + "%", b"x" * 252 + b"%25"),
    ],
)
def test_what_is_encoded_and_where_it_is_cut(text: str, value: bytes) -> None:
    assert value == ascii_value(text)


def headers_of(**facts: object) -> dict[str, str]:
    found = WRITE(Facts(**facts), (), record_id="gw_test", policy="test@00000000", verdict="pass", overhead_ms=1.234)  # type: ignore[arg-type]
    return {name.decode("ascii"): value.decode("ascii") for name, value in found}


def test_without_facts_only_what_is_always_there() -> None:
    always = {
        "x-groundwire-id": "gw_test",
        "x-groundwire-policy": "test@00000000",
        "x-groundwire-verdict": "pass",
        "x-groundwire-overhead-ms": "1.23",
    }
    assert always == headers_of()


@pytest.mark.parametrize(
    ("fact", "value", "header", "text"),
    [
        ("context", ContextUse(8, 2000, True, {}), "context", "8/2000;exact"),
        ("context", ContextUse(8, None, False, {}), "context", "8/unknown;estimate"),
        (
            "compression",
            CompressionResult(before_tokens=8210, after_tokens=4877, strategies=("trim", "summarize")),
            "compression",
            "trim+summarize;8210->4877;1.7x",
        ),
        ("compression", CompressionResult(before_tokens=9, after_tokens=0, strategies=("trim",)), "compression", "trim;9->0;9.0x"),
        (
            "compression",
            CompressionResult(before_tokens=9, after_tokens=9, reason="below-threshold"),
            "compression",
            "none;below-threshold",
        ),
        ("tools", ToolSelection(offered=45, kept=4), "tools", "45->4"),
        ("tools", ToolSelection(offered=45, kept=45, reason="few"), "tools", "45->45;few"),
        ("quality", 0.999, "quality", "1.00"),
        ("quality", 0.0, "quality", "0.00"),
        ("faithfulness", 0.5, "faithfulness", "0.50"),
        ("citations", (3, 4), "citations", "3/4"),
        ("confidence", "HIGH;overclaimed", "confidence", "HIGH;overclaimed"),
        ("relevance", 1.0, "relevance", "1.00"),
        ("clashes", 0, "clashes", "0"),
        ("failures_injected", 2, "failures", "2"),
    ],
)
def test_how_a_fact_is_written(fact: str, value: object, header: str, text: str) -> None:
    assert text == headers_of(**{fact: value})["x-groundwire-" + header]


def warnings_of(codes: list[str]) -> str | None:
    verdicts = [Verdict("stage", "warn", code=code) for code in codes]
    found = dict(WRITE(Facts(), verdicts, record_id="gw_test", policy="test@00000000", verdict="warn", overhead_ms=0.0))
    return found[b"x-groundwire-warnings"].decode("ascii") if b"x-groundwire-warnings" in found else None


@given(CODES)
def test_warnings_are_cut_only_between_codes(codes: list[str]) -> None:
    value = warnings_of(codes) or ""
    assert len(value) <= MAX_VALUE_BYTES
    assert set(filter(None, value.split(","))) <= set(codes)


def test_as_many_warnings_as_fit() -> None:
    codes = [f"{'c' * 47}{i:02d}" for i in range(10)]
    assert ",".join(codes[:5]) == warnings_of(codes)


def test_warnings_that_need_encoding_are_cut_only_between_codes_too() -> None:
    codes = ["é" * 30 + str(i) for i in range(4)]
    value = warnings_of(codes) or ""
    assert len(value) <= MAX_VALUE_BYTES
    assert set(map(unquote, value.split(","))) <= set(codes)


def test_what_has_no_exchange_has_its_id_and_verdict() -> None:
    assert [(b"x-groundwire-id", b"gw_1"), (b"x-groundwire-verdict", b"skipped")] == plain_headers("gw_1", "skipped")


# ---- hints ----


def test_hints_are_read() -> None:
    given_headers = {
        "x-groundwire-policy": " strict ",
        "x-groundwire-skip": "budget, ,claims",
        "x-groundwire-run-id": "r",
        "x-groundwire-step-id": "2",
        "x-groundwire-inline": "True",
    }
    assert RequestHints("strict", frozenset(("budget", "claims")), "r", "2", True) == parse_hints(given_headers)
    assert RequestHints() == parse_hints({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-groundwire-run-id", "r" * 129),
        ("x-groundwire-step-id", "s" * 129),
        ("x-groundwire-inline", "yes"),
        ("x-groundwire-", ""),
        ("x-groundwire-polcy", "x"),
    ],
)
def test_a_hint_that_cannot_be_meant_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(name)) as raised:
        parse_hints({name: value})
    assert name == raised.value.param


def test_what_connection_names_stays_behind_but_never_what_says_how_a_body_is_read() -> None:
    given = [
        (b"connection", b"x-a, content-encoding"),
        (b"connection", b"X-B"),
        (b"x-a", b"1"),
        (b"x-b", b"2"),
        (b"content-encoding", b"br"),
    ]
    found = client_headers(given, raw=True)
    assert ([("content-encoding", "br")], "br") == (found.forwarded, found.encoding)
