"""What all bodies have in common."""

import json

import pytest

from proxy.offloop import LARGE
from proxy.wire.bodies import count_up_to, reading


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
