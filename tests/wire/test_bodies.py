"""What all bodies have in common."""

import json

import orjson
import pytest

from proxy.errors import InvalidRequest
from proxy.offloop import LARGE
from proxy.wire.bodies import check_keys, count_up_to, load, reading


def _body(messages: list[object]) -> bytes:
    return json.dumps({"model": "m", "messages": messages}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("body", "apart"),
    [
        (_body([{"role": "user", "content": "word " * 200}] * 200), False),
        (_body([{"role": "user", "content": "word " * 200}] * 2000), True),
        (_body([{}] * 60_000), True),
        (_body([{str(i): i for i in range(40_000)}]), True),
    ],
    ids=["a long conversation", "ten of them", "empty objects", "many fields"],
)
def test_what_takes_longer_than_a_slice_is_parsed_apart(body: bytes, apart: bool) -> None:
    assert (reading(body) >= LARGE) is apart


@pytest.mark.parametrize("most", [0, 1, 2, 3, 8, 9, 20])
@pytest.mark.parametrize("body", [b"", b"{", b"{{", b"a{b{c{", b"abc", b"{" + b"a" * 300_000 + b"{b{c", b"{" * 30])
def test_marks_are_counted_as_far_as_asked(body: bytes, most: int) -> None:
    assert count_up_to(body, b"{", most) == min(body.count(b"{"), most)


@pytest.mark.parametrize(("levels", "kept"), [(253, True), (254, False)])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
def test_a_body_that_could_not_be_written_again_is_refused(levels: int, kept: bool, opened: str, closed: str) -> None:
    beside = json.dumps([{}] * 300)  # more brackets than levels that may stand in each other
    body = f'{{"x": {opened * levels}1{closed * levels}, "y": {beside}}}'.encode()
    if kept:
        assert orjson.dumps(load(body))
    else:
        with pytest.raises(InvalidRequest, match="nested more than 254"):
            load(body)


@pytest.mark.parametrize("space", ["", " "], ids=["as orjson writes", "with blanks"])
def test_a_key_that_stands_twice_is_refused_however_a_body_is_written(space: str):
    """A body that is written again as it was has none; any other is read pair by pair."""
    once = '{"model":"m","messages":[{"role":"user","content":"\\"a\\": :"}]}'.replace(":", f":{space}", 1)
    twice = '{"model":"m","messages":[{"role":"user","content":"a","content":"b"}]}'.replace(":", f":{space}", 1)
    check_keys(once.encode(), "messages")
    with pytest.raises(InvalidRequest, match="'content' stands twice"):
        check_keys(twice.encode(), "messages")


@pytest.mark.parametrize("space", ["", " "], ids=["as orjson writes", "with blanks"])
def test_a_key_that_some_servers_take_for_another_is_refused_below_the_conversation_too(space: str):
    """Not where keys are the client's own."""
    own = '{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"Role":{}}}}],"messages":[]}'
    own = own.replace(":", f":{space}", 1)
    check_keys(own.encode(), "messages")
    with pytest.raises(InvalidRequest, match="write 'content'"):
        check_keys(own.replace('"messages":[]', '"messages":[{"role":"user","Content":"a"}]').encode(), "messages")
