"""A record's detail: written as it always was, read whatever version has written it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamTimeout
from proxy.exchange import Answer, Choice, CompressionResult, ContextUse, Facts, ToolSelection, Usage, Verdict
from proxy.observe.finished import Finished
from proxy.observe.recording import inline_detail, record_of
from proxy.store.records import RecordDetail, RecordTexts, decode, read, to_row
from proxy.store.tables import records
from proxy.testing import make_exchange

WRITTEN = (
    b'{"overhead_ms":0.123,"error":{"code":"upstream_timeout","param":null,"message":"too late"},"attempts":3,"enforced":false,'
    b'"verdicts":[{"stage":"budget","outcome":"pass"},{"stage":"claims","outcome":"warn","code":"c","score":0.0,"message":"m","would":"block",'
    b'"detail":{"claims":[1]}}],"facts":{"context_before":{"used_tokens":9,"window_tokens":null,"exact":false,"components":{}},'
    b'"context":{"used_tokens":3,"window_tokens":8,"exact":true,"components":{"current_query":3}},"compression":{"strategies":["trim"],'
    b'"before_tokens":9,"after_tokens":3,"reason":""},"tools":{"offered":3,"kept":2,"reason":""},"quality":0.5,"citations":[1,2],"clashes":0},'
    b'"timings_ms":{"budget.request":1.235},"changes":[{"stage":"budget","what":"w","tokens":3}],"skip":["a","b"],'
    b'"usage":{"prompt":3,"completion":4,"cached":5},"finish_reasons":["stop",null]}'
)
"""As version 0.1 has stored it."""
ANSWERS = (
    b'{"answers":[{"delivered":false,"upstream":"u","ms":3.142,"characters":[3],"usage":{"prompt":1,"completion":2,"cached":0},'
    b'"verdicts":[{"stage":"x","outcome":"warn","code":"y"}]},{"delivered":true,"upstream":"v","ms":2.0,"characters":[2]}]}'
)
TEXTS = b'{"forwarded":{"messages":[{"role":"user"}],"tools":[]},"delivered":[{"index":0}],"answer_texts":[["one"],["Hi"]]}'


def finished() -> Finished:
    exchange = make_exchange()
    exchange.enforced, exchange.skip = False, frozenset({"b", "a"})
    exchange.verdicts += [Verdict("budget", "pass"), Verdict("claims", "warn", "c", 0.0, {"claims": [1]}, "m", "in its place", "block")]
    exchange.facts = Facts(
        ContextUse(9, None, False),
        ContextUse(3, 8, True, {"current_query": 3}),
        None,
        CompressionResult(("trim",), 9, 3),
        ToolSelection(3, 2),
        quality=0.5,
        citations=(1, 2),
        clashes=0,
    )
    exchange.timings["budget.request"] = 1.23456
    exchange.changes.append({"stage": "budget", "what": "w", "tokens": 3})
    exchange.answer = Answer((Choice(0, "Hi", finish_reason="stop"), Choice(1)), usage=Usage(3, 4, 5))
    usage = exchange.answer.usage
    return Finished(id="gw_1", exchange=exchange, usage=usage, tries=3, error=UpstreamTimeout("too late"), overhead_ms=0.12345)


def stored(done: Finished) -> bytes:
    written: bytes = dict(zip([column.name for column in records.columns], to_row(record_of(done, bodies=False)), strict=True))["detail"]
    return written


def test_what_is_stored_is_what_was_always_stored() -> None:
    assert WRITTEN == stored(finished())


def test_of_an_exchange_without_findings_next_to_nothing_is_stored() -> None:
    assert b'{"overhead_ms":0.5}' == stored(Finished(id="gw_1", exchange=make_exchange(), overhead_ms=0.5))


@pytest.mark.parametrize("written", [WRITTEN, ANSWERS, TEXTS])
def test_what_was_stored_is_read_whole(written: bytes) -> None:
    assert written == msgspec.json.encode(read(msgspec.json.decode(written), RecordTexts))


def test_counting_reads_what_a_page_reads() -> None:
    assert read(msgspec.json.decode(WRITTEN), RecordDetail) == decode(WRITTEN)


def test_inline_it_is_the_same_without_what_only_the_endpoint_knows() -> None:
    exchange, kept = finished().exchange, msgspec.json.decode(WRITTEN)
    assert exchange is not None
    own = {name: kept.pop(name) for name in ("overhead_ms", "error", "attempts")}
    inline = msgspec.json.decode(msgspec.json.encode(inline_detail(exchange, "warn")))
    assert (3, {"id": "gw_test", "policy": "test@00000000", "verdict": "warn"} | kept) == (len(own), inline)


def test_fields_of_another_version_are_passed_over() -> None:
    written = (
        b'{"overhead_ms":1.0,"mood":"fine","facts":{"quality":0.5,"beauty":1},"verdicts":[{"stage":"a","outcome":"splendid","sure":true}]}'
    )
    found = decode(written)
    assert (1.0, 0.5, "splendid") == (found.overhead_ms, (found.facts or Facts()).quality, found.verdicts[0].outcome)


def test_what_has_another_shape_is_left_out_alone() -> None:
    facts = {"quality": "high", "faithfulness": 0.5, "context": {"used_tokens": 9, "window_tokens": "8k"}}
    odd = {"verdicts": [7, {"stage": "a", "code": 3}], "facts": facts, "timings_ms": 3, "usage": [], "answers": [{}], "skip": ["a", 1]}
    found = read(odd, RecordDetail)
    assert found == RecordDetail(verdicts=found.verdicts, facts=Facts(context=ContextUse(9), faithfulness=0.5), skip=["a"])
    assert ["a"] == [verdict.stage for verdict in found.verdicts]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*RecordTexts.__struct_fields__, "stage", "context", "x"]), inner),
    max_leaves=8,
)


@given(JSON)
def test_whatever_was_stored_a_detail_is_read(value: Any) -> None:
    found = read(value, RecordTexts)
    assert isinstance(found, RecordTexts)
    assert found == read(found, RecordTexts) or "nan" in str(found)
