"""Whatever a client or a server sends: a translation, or an error that says what is wrong with it."""

import json
from contextlib import suppress
from itertools import permutations
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.errors import InvalidRequest, UpstreamUnreachable
from proxy.ports.upstream import Past
from proxy.wire.translation.translate import APIS
from tests.wire.translation.pairs import AGENT, SEEN, exchange
from tests.wire.translation.test_answers import WHOLE, begun, streamed

PAIRS = list(permutations(APIS, 2))
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([1.5, "", "x", "auto", "text", "data:x;base64,y", "groundwire:chat:"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "name", "id", "x"]), inner, max_size=2),
    max_leaves=4,
)


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in nodes(value[key])]


def changed(data: st.DataObject, value: Any) -> Any:
    """The value with other things in some of its places."""
    copy = json.loads(json.dumps(value))
    for _ in range(data.draw(st.integers(1, 3))):
        places = nodes(copy)
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = data.draw(ODD)
    return copy


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_request_is_translated_or_refused_by_name(data: st.DataObject) -> None:
    client, server = data.draw(st.sampled_from(PAIRS))
    body = changed(data, data.draw(st.sampled_from([AGENT, SEEN]))[client])
    named: str | None = ""
    try:
        exchange(client, server).request(json.dumps(body).encode(), Past())
    except InvalidRequest as refused:
        named = refused.param
    assert named is not None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_answer_is_told_or_an_upstreams_failure(data: st.DataObject) -> None:
    client, server = data.draw(st.sampled_from(PAIRS))
    answer = changed(data, data.draw(st.sampled_from(list(WHOLE.values())))[server])
    with suppress(UpstreamUnreachable):
        assert isinstance(json.loads(begun(client, server).answer(json.dumps(answer).encode())), dict)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_stream_is_told_or_an_upstreams_failure(data: st.DataObject) -> None:
    client, server = data.draw(st.sampled_from(PAIRS))
    events = streamed(server, data.draw(st.sampled_from(list(WHOLE.values())))[server]).split(b"\n\n")
    found = begun(client, server)
    with suppress(UpstreamUnreachable):
        for event in events:
            head, mark, payload = event.partition(b"data: ")
            if mark and payload.startswith(b"{") and data.draw(st.integers(0, 4)) == 0:
                event = head + mark + json.dumps(changed(data, json.loads(payload))).encode()
            found.feed(event + b"\n\n")
        found.finish()


@given(st.binary(max_size=80))
@example(b'data: "x"\n\n')
@example(b"data: {}\n\ndata: [DONE]\n\n")
def test_any_bytes_are_told_or_an_upstreams_failure(stream: bytes) -> None:
    for client, server in PAIRS:
        found = begun(client, server)
        with suppress(UpstreamUnreachable):
            found.feed(stream)
            found.finish()
