"""Content encodings of a body, undone in bounded pieces: a few bytes may stand for gigabytes.

A client's request may come in one (Codex sends zstd); an upstream's answer, though asked for as ``identity``, may, too.
RFC 9110 section 8.4.1; RFC 1950 to 1952 (deflate, gzip), 7932 (br), 8878 (zstd).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from proxy.errors import InvalidRequest, RequestTooLarge, UnsupportedEncoding
from proxy.offloop import check

PIECE_BYTES = 2**18
"""Of decoded bytes, in one piece."""
_INPUT_SLICE_BYTES = 2**16
MOST_ENCODINGS = 2
"""Of one body, one inside the other."""
MOST_EMPTY_MEMBERS = 100
"""Frames or members of a body, one behind the other, that stand for nothing: each takes as long as a kilobyte of text."""
ENCODINGS = ("gzip", "deflate", "br", "zstd")
_NAMES = {"x-gzip": "gzip"}
PLAIN = frozenset(("", "identity", "none", "utf-8", "utf8"))
"""What a server says of a body that stands as it is; some say its charset there."""


class Undecodable(Exception):
    """The bytes are not what their encoding says, or no known encoding."""


class _Undo:
    """A decompressor of one frame or member, as `bz2`'s and `lzma`'s."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def piece(self, data: bytes) -> bytes:
        """At most about `PIECE_BYTES` of what it and what is left from before stand for; b"" where more input is needed."""
        return bytes(self._inner.decompress(data, PIECE_BYTES))

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""
        return bool(self._inner.eof)

    @property
    def trailing(self) -> bytes:
        """What came behind its end."""
        return bytes(self._inner.unused_data)


class Decoder:
    """Undoes one ``content-encoding``."""

    def __init__(self, encoding: str) -> None:
        """Raises `Undecodable` for one that is not known."""
        name = encoding.strip().lower()
        self._name = _NAMES.get(name, name)
        if self._name not in ENCODINGS:
            raise Undecodable(f"content-encoding {encoding[:40]!r} is not known")
        self._undo = _MAKERS[self._name]()
        self._has_output = False
        self._empty_members = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What `data` stands for, about `PIECE_BYTES` at a time. Raises `Undecodable`."""
        if data and self._undo.eof:
            self._undo = _MAKERS[self._name]()
        while True:
            try:
                piece = self._undo.piece(data)
            except Exception as error:  # each library has its own
                if self._has_output or self._name != "deflate":
                    raise Undecodable(f"the body is not {self._name}: {str(error)[:100]}") from error
                self._undo = _Zlib(-zlib.MAX_WBITS)  # some clients and servers mean raw deflate
                self._has_output = True
                continue
            self._has_output = self._has_output or bool(data)
            if piece:
                self._empty_members = 0
                yield piece
            data = b""
            if self._undo.eof:
                data = self._undo.trailing
                if not data:
                    return
                self._empty_members += 1
                if self._empty_members > MOST_EMPTY_MEMBERS:
                    raise Undecodable(f"more than {MOST_EMPTY_MEMBERS} parts of the {self._name} body stand for nothing")
                self._undo = _MAKERS[self._name]()  # another gzip member, another zstd frame
            elif not piece:
                return

    def end(self) -> None:
        """The body has ended. Raises `Undecodable` where it is not whole."""
        if self._has_output and not self._undo.eof:
            raise Undecodable(f"the {self._name} body ends before it is whole")


def decode_body(body: bytes, encodings: str, limit_bytes: int) -> bytes:
    """A client's `body` without its ``content-encoding``, which may name several. Large work: call it aside.

    Raises `UnsupportedEncoding`, `InvalidRequest` where the bytes are none of that encoding, `RequestTooLarge`.
    """
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > MOST_ENCODINGS:
        raise UnsupportedEncoding(f"content-encoding: at most {MOST_ENCODINGS} at once")
    for name in reversed(names):
        body = _undone(body, name, limit_bytes)
    return body


def _undone(body: bytes, name: str, limit_bytes: int) -> bytes:
    try:
        decoder = Decoder(name)
    except Undecodable as error:
        known = ", ".join(ENCODINGS)
        raise UnsupportedEncoding(f"{error}: send {known} or none", headers=(("accept-encoding", known),)) from error
    found, size = [], 0
    try:
        for start in range(0, len(body), _INPUT_SLICE_BYTES):
            for piece in decoder.pieces(body[start : start + _INPUT_SLICE_BYTES]):
                check()
                size += len(piece)
                if size > limit_bytes:
                    raise RequestTooLarge(f"the body, decoded, is larger than server.max_body_bytes ({limit_bytes} bytes)")
                found.append(piece)
        decoder.end()
    except Undecodable as error:
        raise InvalidRequest(str(error)) from error
    return b"".join(found)


class _Zlib(_Undo):
    def __init__(self, wbits: int = zlib.MAX_WBITS | 32) -> None:
        """Reads gzip or zlib, as its first bytes say."""
        super().__init__(zlib.decompressobj(wbits=wbits))

    def piece(self, data: bytes) -> bytes:
        return bytes(self._inner.decompress(self._inner.unconsumed_tail + data, PIECE_BYTES))


class _Brotli(_Undo):
    def __init__(self) -> None:
        import brotli  # rare

        super().__init__(brotli.Decompressor())
        self._trailing = b""

    def piece(self, data: bytes) -> bytes:
        self._trailing += data
        while True:
            given, self._trailing = (self._trailing, b"") if self._inner.can_accept_more_data() else (b"", self._trailing)
            found: bytes = self._inner.process(given, output_buffer_limit=PIECE_BYTES)
            if found or not self._trailing or self._inner.is_finished():
                return found

    @property
    def eof(self) -> bool:
        return bool(self._inner.is_finished())

    @property
    def trailing(self) -> bytes:
        return self._trailing


def zstandard() -> Any:
    """Python's own module of that format, or its backport."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")  # rare


_MAKERS: dict[str, Callable[[], _Undo]] = {
    "gzip": _Zlib,
    "deflate": _Zlib,
    "br": _Brotli,
    "zstd": lambda: _Undo(zstandard().ZstdDecompressor()),
}
