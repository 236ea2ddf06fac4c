"""Content encodings: undone within bounds, whatever the pieces, or refused by name."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable

import brotli
import pytest

from proxy.errors import InvalidRequest, RequestTooLarge, UnsupportedEncoding
from proxy.wire.http.encodings import MOST_EMPTY_MEMBERS, PIECE_BYTES, Decoder, Undecodable, decode_body, zstandard

zstd = zstandard()
WAYS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "GZip": gzip.compress,
}
BODIES = {"nothing": b"", "small": b'{"a": 1}', "alike": b"a" * 3_000_000, "mixed": os.urandom(300_000) + b"b" * 300_000}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_is_decoded(name: str, body: bytes) -> None:
    assert decode_body(WAYS[name](body), name, 5_000_000) == body


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_any_split_gives_the_same(name: str, size: int) -> None:
    data = WAYS[name](BODIES["small"] * 500)
    decoder = Decoder(name)
    found = b"".join(piece for at in range(0, len(data), size) for piece in decoder.pieces(data[at : at + size]))
    decoder.end()
    assert found == BODIES["small"] * 500


def test_raw_deflate_is_read() -> None:
    raw = zlib.compress(b"hello")[2:-4]
    assert decode_body(raw, "deflate", 100) == b"hello"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [3, 10_000])
def test_several_members_follow_one_another(name: str, size: int) -> None:
    data, decoder = WAYS[name](b"one ") + WAYS[name](b"two"), Decoder(name)
    assert b"".join(p for at in range(0, len(data), size) for p in decoder.pieces(data[at : at + size])) == b"one two"


def test_two_encodings_are_undone_from_the_last() -> None:
    assert decode_body(zstd.compress(gzip.compress(b"x")), "gzip, zstd", 100) == b"x"
    assert decode_body(b"x", "identity", 100) == b"x"


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_refused_before_it_is_there(name: str) -> None:
    with pytest.raises(RequestTooLarge, match="decoded"):
        decode_body(WAYS[name](bytes(50_000_000)), name, 1_000_000)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_few_bytes_become_many_in_bounded_pieces_only(name: str) -> None:
    sizes = [len(piece) for piece in Decoder(name).pieces(WAYS[name](bytes(5_000_000)))]
    assert (5_000_000, True) == (sum(sizes), max(sizes) <= 2 * PIECE_BYTES)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_that_stand_for_nothing_have_a_bound(name: str) -> None:
    few, many = (WAYS[name](b"") * number for number in (MOST_EMPTY_MEMBERS, 10 * MOST_EMPTY_MEMBERS))
    assert decode_body(few + WAYS[name](b"x"), name, 100) == b"x"
    with pytest.raises(InvalidRequest, match="stand for nothing"):
        decode_body(many, name, 100)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("data", [b"not it", b"\x28\xb5\x2f\xfd" + b"x" * 40, b"\x1f\x8b\x08" + b"x" * 40])
def test_what_is_not_that_encoding_is_refused_by_name(name: str, data: bytes) -> None:
    with pytest.raises(InvalidRequest, match=name):
        decode_body(data, name, 1000)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_half_a_body_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="whole"):
        decode_body(WAYS[name](os.urandom(10_000))[:5000], name, 100_000)


@pytest.mark.parametrize("name", ["lzma", "compress", "aws-chunked", "gzip, gzip, gzip", "g" * 9999])
def test_other_encodings_are_not_supported(name: str) -> None:
    with pytest.raises(UnsupportedEncoding, match="encoding"):
        decode_body(b"x", name, 100)


def test_a_decoder_knows_no_other() -> None:
    with pytest.raises(Undecodable):
        Decoder("compress")
