"""Signs that a server cuts in two: half of an emoji, a lone surrogate of UTF-16, at the end of one event, the rest in the next."""

from __future__ import annotations

from msgspec.structs import replace

from proxy.wire.translation.pieces import CallGiven, Piece, Refused, Said, Thinking

_HIGH = ("\ud800", "\udbff")


class Halves:
    """Of one stream."""

    def __init__(self) -> None:
        self._open: dict[type, str] = {}
        """What waits for its other half, by the kind of piece."""

    def mended(self, piece: Piece) -> Piece:
        """`piece` with whole signs alone; a half that ends it waits for the next piece of its kind, any other becomes U+FFFD."""
        if not isinstance(piece, Said | Thinking | Refused | CallGiven) or not (piece.text or self._open):
            return piece
        text = self._open.pop(type(piece), "") + piece.text
        if text.isascii():
            return piece
        if text and _HIGH[0] <= text[-1] <= _HIGH[1]:
            self._open[type(piece)], text = text[-1], text[:-1]
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return piece if whole == piece.text else replace(piece, text=whole)
