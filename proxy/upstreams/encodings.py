"""Content encodings of an upstream's answer, undone in bounded pieces: a few bytes may stand for gigabytes.

Answers are asked for as ``identity``; some servers compress them all the same. RFC 9110 section 8.4.1, RFC 1950 to 1952.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PIECE_BYTES = 2**18
"""Of decoded bytes, in one piece."""


class Undecodable(Exception):
    """The bytes are not what their encoding says, or no known encoding."""


class Decoder:
    """Undoes one ``content-encoding``."""

    def __init__(self, encoding: str) -> None:
        """Raises `Undecodable` for one that is not known."""
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise Undecodable(f"content-encoding {encoding[:40]!r}, though identity was asked for")
        self._undo = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, as its first bytes say
        self._begun = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What `data` stands for, at most `PIECE_BYTES` at a time. Raises `Undecodable`."""
        while data:
            try:
                piece = self._undo.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                if self._begun or self._encoding != "deflate":
                    raise Undecodable(f"the body is not {self._encoding}: {error}") from error
                self._undo = zlib.decompressobj(wbits=-zlib.MAX_WBITS)  # some servers mean raw deflate
                self._begun = True
                continue
            self._begun = True
            if piece:
                yield piece
            data = self._undo.unconsumed_tail
            if not data and self._undo.eof and (data := self._undo.unused_data):  # another gzip member
                self._undo = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            elif not data and len(piece) == PIECE_BYTES:  # what is left inside comes without further input
                yield from self._rest()

    def _rest(self) -> Iterator[bytes]:
        while piece := self._undo.decompress(b"", PIECE_BYTES):
            yield piece

    def end(self) -> None:
        """The body has ended. Raises `Undecodable` where it is not whole."""
        if self._begun and not self._undo.eof:
            raise Undecodable(f"the {self._encoding} body ends before it is whole")
