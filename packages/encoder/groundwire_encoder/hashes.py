"""Hashes of all short pieces of a text at once, by which a vocabulary is looked up in two sorted arrays, not in a dictionary of 40 MB.

The hash of characters c1…cn is ``Σ mix(c_k) · B^(k-1)`` modulo 2^64: with the running sum over a text, that of every piece is a difference
and a product. A vocabulary's own hashes are checked to be distinct; that another piece of text has one of them by chance is one in 10^14.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

_BASE = 0x9E3779B97F4A7C15
_SCATTER = np.uint64(0xD1B54A32D192ED03)
_INVERSE = pow(_BASE, -1, 2**64)


def _powers(base: int, count: int) -> Hashes:
    found, power = [], 1
    for _ in range(count):
        found.append(power)
        power = power * base % 2**64
    return np.array(found, np.uint64)


MOST = 4096
"""Characters that are hashed at once."""
_UP, _DOWN = _powers(_BASE, MOST + 1), _powers(_INVERSE, MOST + 1)


def _mixed(text: str) -> Hashes:
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)
    mixed = (codes + np.uint64(1)) * _SCATTER
    found: Hashes = mixed ^ (mixed >> np.uint64(29))
    return found


def piece_hashes(pieces: Sequence[str]) -> Hashes:
    """Of each piece. Raises `ValueError` where two have the same."""
    found: Hashes = np.array([_hash(piece) for piece in pieces], np.uint64)
    if len(np.unique(found)) < len(found):
        raise ValueError("two pieces of the vocabulary have the same hash")
    return found


def _hash(piece: str) -> np.uint64:
    return np.uint64((_mixed(piece) * _UP[: len(piece)]).sum(dtype=np.uint64))


def window_hashes(text: str, longest: int) -> Hashes:
    """``(len(text), longest)``: at ``[i, n - 1]`` the hash of the n characters from i on; past the text's end anything. At most `MOST`."""
    sums = np.zeros(len(text) + longest + 1, np.uint64)
    np.cumsum(_mixed(text) * _UP[: len(text)], dtype=np.uint64, out=sums[1 : len(text) + 1])
    ends = np.arange(len(text))[:, None] + np.arange(1, longest + 1)
    found: Hashes = (sums[ends] - sums[: len(text), None]) * _DOWN[: len(text), None]
    return found
