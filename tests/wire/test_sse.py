import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import sse

EVENTS = [
    (b'data: {"a": 1}\n\n', b'{"a": 1}'),
    (b"data:no space\n\n", b"no space"),
    (b"data: crlf\r\n\r\n", b"crlf"),
    (b"data: first\ndata: second\n\n", b"first\nsecond"),
    (b"data: first\r\ndata: second\r\n\r\n", b"first\nsecond"),
    (b": comment\n\n", None),
    (b"event: ping\ndata: x\nid: 3\n\n", b"x"),
    ("data: Größe 漢字 🙂\n\n".encode(), "Größe 漢字 🙂".encode()),
    (b"data: cr\r\r", b"cr"),
    (b"data\n\n", b""),
    (b"data: [DONE]\n\n", b"[DONE]"),
]


def split(chunks: list[bytes]) -> list[sse.Event]:
    splitter = sse.EventSplitter()
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    rest = splitter.finish()
    return events if rest is None else [*events, rest]


def test_each_event_keeps_its_bytes_and_gives_its_data() -> None:
    assert [(raw, data) for raw, data in EVENTS] == [(e.raw, e.data) for e in split([b"".join(raw for raw, _ in EVENTS)])]


def test_a_stream_split_at_every_byte_gives_the_same_events() -> None:
    whole = b"".join(raw for raw, _ in EVENTS)
    expected = split([whole])
    for cut in range(len(whole) + 1):
        assert expected == split([whole[:cut], whole[cut:]])
    assert expected == split([whole[i : i + 1] for i in range(len(whole))])


@given(st.lists(st.sampled_from([raw for raw, _ in EVENTS]), max_size=6), st.data())
def test_the_raw_bytes_joined_are_the_stream(raws: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(raws)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert whole == b"".join(event.raw for event in split(chunks))


def test_a_byte_order_mark_is_no_data() -> None:
    assert [b"x"] == [e.data for e in split([b"\xef\xbb\xbfdata: x\n\n"])]


def test_what_has_no_blank_line_comes_out_at_the_end_with_one() -> None:
    assert [(b'data: {"a":1}\n\n', b'{"a":1}')] == [(e.raw, e.data) for e in split([b'data: {"a":1}'])]
    assert [(b"data: [DONE]\n\n", True)] == [(e.raw, e.done) for e in split([b"data: [DONE]\n"])]


@pytest.mark.parametrize("half", [b'data: {"a":', b"data: tail", b'event: x\ndata: {"type":"respo', b"data:"])
def test_half_an_event_is_none(half: bytes) -> None:
    assert [b'data: {"b":2}\n\n'] == [e.raw for e in split([b'data: {"b":2}\n\n', half])]


@given(st.lists(st.sampled_from([raw for raw, _ in EVENTS]), max_size=6), st.data())
def test_bytes_leave_up_to_the_end_of_an_event(raws: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(raws)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    gate, left = sse.WholeEvents(), b""
    for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        left += gate.feed(whole[a:b])
        assert not left or left.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
    assert left + gate.unfinished == whole


def test_the_end_mark_is_known_with_white_space_around_it() -> None:
    assert [True, False] == [e.done for e in split([b"data:  [DONE] \n\ndata: [DONE]x\n\n"])]
