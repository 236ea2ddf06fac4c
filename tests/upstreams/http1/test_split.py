"""However an answer is cut on its way, it says the same."""

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.upstreams.http1.memory import outcome
from tests.upstreams.http1.test_malformed import BEHIND, NO_BODIES, NO_HEADS

GOOD = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nX-Long-Name: v  \r\n\r\nhello world",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-encoding: gzip\r\n\r\n3;a\r\nabc\r\nB\r\nhello world\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\na: b\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\nno",
    b"HTTP/1.1 204 No Content\r\nset-cookie: a\r\nset-cookie: b\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\ncut o",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
    b"HTTP/1.1 200 OK\r\ncontent-",
]
ANSWERS = GOOD + [answer for answer in (*NO_HEADS.values(), *NO_BODIES.values(), *BEHIND.values()) if len(answer) < 5000]


def test_an_answer_cut_at_every_byte_says_the_same() -> None:
    async def check() -> None:
        for answer in ANSWERS:
            expected = await outcome([answer])
            for at in range(1, len(answer)):
                assert expected == await outcome([answer[:at], answer[at:]]), (answer, at)
            assert expected == await outcome(answer[i : i + 1] for i in range(len(answer)))

    asyncio.run(check())


@given(st.sampled_from(ANSWERS), st.lists(st.integers(0, 200)), st.booleans())
def test_an_answer_cut_anywhere_says_the_same(answer: bytes, places: list[int], bodiless: bool) -> None:
    cuts = [0, *sorted(place % (len(answer) + 1) for place in places), len(answer)]
    pieces = [answer[a:b] for a, b in pairwise(cuts) if a < b]

    async def both() -> None:
        assert await outcome([answer], bodiless=bodiless) == await outcome(pieces, bodiless=bodiless)

    asyncio.run(both())


def test_whole_answers_keep_their_connection_and_others_do_not() -> None:
    async def kept() -> list[bool]:
        return [(await outcome([answer])).kept for answer in ANSWERS]

    assert [True] * 4 + [False] * (len(ANSWERS) - 4) == asyncio.run(kept())
