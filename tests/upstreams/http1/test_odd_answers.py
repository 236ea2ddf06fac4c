"""Odd answers, as raw bytes, and what the client makes of each: it is never laxer than h11."""

import asyncio

import pytest

from tests.upstreams.http1.memory import outcome
from tests.upstreams.http1.reference import said
from tests.upstreams.http1.test_malformed import BEHIND, NO_BODIES, NO_HEADS

HEAD, LENGTH = b"HTTP/1.1 200 OK\r\n", b"content-length: 2\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
KEPT, CLOSED, BAD, BROKEN, NOTHING = "kept", "closed", "BadAnswer", "Broken", "Closed"
ODD: dict[str, tuple[bytes, bytes, str]] = {
    # ---- the status line ----
    "no reason": (b"HTTP/1.1 200 \r\n" + LENGTH + b"ok", b"ok", KEPT),
    "no reason and no space": (b"HTTP/1.1 200\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "a reason in Latin-1": (b"HTTP/1.1 200 D\xe9j\xe0\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "a reason of many words": (b"HTTP/1.1 200 Fine: all 3 (of 3)\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "an empty line in front": (b"\r\n" + HEAD + LENGTH + b"ok", b"ok", KEPT),
    "status 299": (b"HTTP/1.1 299 x\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "status 599": (b"HTTP/1.1 599 x\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "status 600": (b"HTTP/1.1 600 x\r\n" + LENGTH + b"ok", b"", BAD),
    "status 999": (b"HTTP/1.1 999 x\r\n" + LENGTH + b"ok", b"", BAD),
    "status 2000": (b"HTTP/1.1 2000 x\r\n" + LENGTH + b"ok", b"", BAD),
    "status -20": (b"HTTP/1.1 -20 x\r\n" + LENGTH + b"ok", b"", BAD),
    "status 2 0": (b"HTTP/1.1 2 0 x\r\n" + LENGTH + b"ok", b"", BAD),
    "a status in letters": (b"HTTP/1.1 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "no status": (b"HTTP/1.1\r\n" + LENGTH + b"ok", b"", BAD),
    "no version": (b"HTTP 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "version 2": (b"HTTP/2 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "version 0.9": (b"HTTP/0.9 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "version 1.10": (b"HTTP/1.10 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "a name in lower case": (b"http/1.1 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "a space in front": (b" HTTP/1.1 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "a tab behind the version": (b"HTTP/1.1\t200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "a byte order mark": (b"\xef\xbb\xbfHTTP/1.1 200 OK\r\n" + LENGTH + b"ok", b"", BAD),
    "a request": (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", BAD),
    "TLS": (b"\x15\x03\x01\x00\x02\x02\x46", b"", BAD),
    "a preface of HTTP/2": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", b"", BAD),
    "a NUL in the reason": (b"HTTP/1.1 200 O\0K\r\n" + LENGTH + b"ok", b"", BAD),
    "a carriage return in the reason": (b"HTTP/1.1 200 O\rK\r\n" + LENGTH + b"ok", b"", BAD),
    "nothing": (b"", b"", NOTHING),
    "half a status line": (b"HTTP/1.1 20", b"", NOTHING),
    "half a head": (HEAD + b"content-length: 2\r\n", b"", NOTHING),
    # ---- headers ----
    "a header without a value": (HEAD + b"x:\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "no space behind the colon": (HEAD + b"content-length:2\r\n\r\nok", b"ok", KEPT),
    "tabs around a value": (HEAD + b"content-length:\t2\t\r\n\r\nok", b"ok", KEPT),
    "many colons": (HEAD + b"x: :a:b:\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "a name in capitals": (HEAD + b"CONTENT-LENGTH: 2\r\n\r\nok", b"ok", KEPT),
    "a name with every letter it may have": (HEAD + b"!#$%&'*+-.^_`|~09: x\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "bytes above 127 in a value": (HEAD + b"x: \xff\x80\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "128 headers": (HEAD + b"x: 1\r\n" * 127 + LENGTH + b"ok", b"ok", KEPT),
    "a header of 60 KB": (HEAD + b"x: " + b"x" * 60_000 + b"\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "a space in a name": (HEAD + b"a b: 1\r\n" + LENGTH + b"ok", b"", BAD),
    "a byte above 127 in a name": (HEAD + b"a\xe9: 1\r\n" + LENGTH + b"ok", b"", BAD),
    "a NUL in a name": (HEAD + b"a\0: 1\r\n" + LENGTH + b"ok", b"", BAD),
    "a bell in a value": (HEAD + b"x: a\x07\r\n" + LENGTH + b"ok", b"", BAD),
    "a delete in a value": (HEAD + b"x: a\x7f\r\n" + LENGTH + b"ok", b"", BAD),
    "a first line that is folded": (HEAD + b" x: 1\r\n" + LENGTH + b"ok", b"", BAD),
    "a fold by a tab": (HEAD + b"x: 1\r\n\t2\r\n" + LENGTH + b"ok", b"", BAD),
    "a tab before the colon": (HEAD + b"content-length\t: 2\r\n\r\nok", b"", BAD),
    "the head ends by a line feed": (HEAD + b"content-length: 2\r\n\nok", b"", BAD),
    # ---- lengths ----
    "zeros in front of a length": (HEAD + b"content-length: 0002\r\n\r\nok", b"ok", KEPT),
    "a negative length": (HEAD + b"content-length: -2\r\n\r\nok", b"", BAD),
    "a hexadecimal length": (HEAD + b"content-length: 0x2\r\n\r\nok", b"", BAD),
    "a length with a fraction": (HEAD + b"content-length: 2.0\r\n\r\nok", b"", BAD),
    "a length in two parts": (HEAD + b"content-length: 2 2\r\n\r\nok", b"", BAD),
    "a length with an underscore": (HEAD + b"content-length: 1_0\r\n\r\n0123456789", b"", BAD),
    "a length in other digits": (HEAD + "content-length: ２\r\n\r\nok".encode(), b"", BAD),
    "two lengths, one of them empty": (HEAD + b"content-length:\r\n" + LENGTH + b"ok", b"", BAD),
    "less than its length": (HEAD + b"content-length: 5\r\n\r\nok", b"", BROKEN),
    "more than its length": (HEAD + LENGTH + b"ok!", b"ok", CLOSED),
    "line ends behind a body": (HEAD + LENGTH + b"ok\r\n", b"ok", KEPT),
    "identity as its coding": (HEAD + b"transfer-encoding: identity\r\n\r\nok", b"", BAD),
    "no coding": (HEAD + b"transfer-encoding:\r\n\r\nok", b"", BAD),
    "a coding with a vertical tab": (HEAD + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", b"", BAD),
    "a coding in quotes": (HEAD + b'transfer-encoding: "chunked"\r\n\r\n0\r\n\r\n', b"", BAD),
    "chunked, with a parameter": (HEAD + b"transfer-encoding: chunked;q=1\r\n\r\n0\r\n\r\n", b"", BAD),
    "a comma behind chunked": (HEAD + b"transfer-encoding: chunked,\r\n\r\n0\r\n\r\n", b"", BAD),
    "no length, up to the end": (HEAD + b"\r\nall of it", b"all of it", CLOSED),
    "no length, nothing": (HEAD + b"\r\n", b"", CLOSED),
    "HTTP/1.0, no length": (b"HTTP/1.0 200 OK\r\n\r\nall", b"all", CLOSED),
    "HTTP/1.0, kept, no length": (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\nall", b"all", CLOSED),
    "HTTP/1.0 with a length": (b"HTTP/1.0 200 OK\r\n" + LENGTH + b"ok", b"ok", CLOSED),
    # ---- chunks ----
    "no chunk but the last": (CHUNKED + b"0\r\n\r\n", b"", KEPT),
    "a last chunk of many zeros": (CHUNKED + b"000\r\n\r\n", b"", KEPT),
    "a chunk's size in capitals": (CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", KEPT),
    "an extension": (CHUNKED + b"2;a=b\r\nok\r\n0\r\n\r\n", b"ok", KEPT),
    "an extension in quotes": (CHUNKED + b'2;a="b c"\r\nok\r\n0\r\n\r\n', b"ok", KEPT),
    "an extension of the last": (CHUNKED + b"2\r\nok\r\n0;a\r\n\r\n", b"ok", KEPT),
    "a trailer": (CHUNKED + b"2\r\nok\r\n0\r\nx: 1\r\ny: 2\r\n\r\n", b"ok", KEPT),
    "line ends inside a chunk": (CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n", KEPT),
    "no last chunk": (CHUNKED + b"2\r\nok\r\n", b"", BROKEN),
    "half a chunk": (CHUNKED + b"5\r\nok", b"", BROKEN),
    "no empty line behind the last": (CHUNKED + b"2\r\nok\r\n0\r\n", b"", BROKEN),
    "an empty chunk's size": (CHUNKED + b"\r\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a chunk's size with a plus": (CHUNKED + b"+2\r\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a chunk's size that is none": (CHUNKED + b"xy\r\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a space before a chunk's size": (CHUNKED + b" 2\r\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a chunk shorter than its size": (CHUNKED + b"3\r\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a NUL in an extension": (CHUNKED + b"2;\0\r\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a line feed in an extension": (CHUNKED + b"2;a\nok\r\n0\r\n\r\n", b"", BROKEN),
    "a chunk that ends by a line feed": (CHUNKED + b"2\r\nok\n0\r\n\r\n", b"", BROKEN),
    "a folded trailer": (CHUNKED + b"2\r\nok\r\n0\r\nx: 1\r\n 2\r\n\r\n", b"", BROKEN),
    "a trailer without a colon": (CHUNKED + b"2\r\nok\r\n0\r\nx\r\n\r\n", b"", BROKEN),
    # ---- answers without a body, and interim ones ----
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", KEPT),
    "204 with a length": (b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", b"", KEPT),
    "204 with chunks": (b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"", CLOSED),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", b"", KEPT),
    "304 with a body": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\nok", b"", CLOSED),
    "205 with nothing": (b"HTTP/1.1 205 Reset\r\ncontent-length: 0\r\n\r\n", b"", KEPT),
    "100 in front": (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + LENGTH + b"ok", b"ok", KEPT),
    "199 in front": (b"HTTP/1.1 199 x\r\n\r\n" + HEAD + LENGTH + b"ok", b"ok", KEPT),
    "twenty interim answers": (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 20 + HEAD + LENGTH + b"ok", b"ok", KEPT),
    "an interim answer alone": (b"HTTP/1.1 100 Continue\r\n\r\n", b"", NOTHING),
    "another protocol": (b"HTTP/1.1 101 x\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", b"", BAD),
    "an upgrade that is only offered": (HEAD + b"upgrade: h2c\r\nconnection: upgrade\r\n" + LENGTH + b"ok", b"ok", KEPT),
    "a connection that is closed": (HEAD + b"connection: close\r\n" + LENGTH + b"ok", b"ok", CLOSED),
    "a connection that is closed, among others": (HEAD + b"connection: x, Close\r\n" + LENGTH + b"ok", b"ok", CLOSED),
}


async def _made_of(pieces: list[bytes]) -> tuple[bytes, str]:
    found = await outcome(pieces)
    return b"" if found.failure else found.body, found.failure or ("kept" if found.kept else "closed")


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_answer_is_read_in_one_way_or_refused(name: str) -> None:
    answer, body, result = ODD[name]
    assert (body, result) == await _made_of([answer])


def test_an_odd_answer_cut_at_every_byte_is_read_the_same() -> None:
    async def check() -> None:
        for name, (answer, body, result) in ODD.items():
            for at in range(1, len(answer) if len(answer) < 2000 else 1):
                cut = await _made_of([answer[:at], answer[at:]])
                assert result == cut[1] or (name, {result, cut[1]}) == ("line ends behind a body", {KEPT, CLOSED}), (name, at)
                assert body == cut[0], (name, at)

    asyncio.run(check())


@pytest.mark.parametrize("answer", [*(answer for answer, *_ in ODD.values()), *NO_HEADS.values(), *NO_BODIES.values(), *BEHIND.values()])
async def test_what_is_taken_for_whole_is_so_to_h11(answer: bytes) -> None:
    found, judged = await outcome([answer]), said(answer)
    if not found.failure:
        assert judged is not None
        assert (judged.status, judged.body) == (found.status, found.body)
        assert not (found.kept and judged.behind)
