"""Recorded exchanges in ``data/exchanges``, each dialect's in a folder of its own: what a client sends and what its API answers, to the byte."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parent / "data" / "exchanges"
_MARK = re.compile(rb"\n--- (\d{3}) \S+\n")
_WHOLE, _STREAMED = b'"stream": false', b'"stream": true'


class Exchanged(Struct, frozen=True):
    """One request with its two answers."""

    name: str
    request: bytes
    """Of an answer in one piece."""
    status: int
    """Of that answer."""
    answer: bytes
    events: bytes
    """The answer as an event stream; its status is 200, also where it tells of an error."""

    @property
    def streamed_request(self) -> bytes:
        return self.request.replace(_WHOLE, _STREAMED)


def recorded(dialect: str) -> list[Exchanged]:
    """All of a dialect."""
    found = []
    for path in sorted((ROOT / dialect).glob("*.txt")):
        request, status, answer, _, events = _MARK.split(path.read_bytes())
        assert request.count(_WHOLE) == 1
        found.append(Exchanged(path.stem, request, int(status), answer, events))
    assert found, f"no exchanges in {ROOT / dialect}"
    return found
