"""The built-in embedding model's forward pass: less than half of the package's work for the same vectors (differences to 3e-7).

Of a token's way through the model, the projection of its embedding and its shares of the first convolution do not depend on its
neighbours: they are computed once for a token, in blocks of a fixed size, and kept (`TokenRows`). The first convolution is then a sum of
rows, and only the second one, over what that sum has become, is left to compute for every token of a text.

A text's vector is the same to the last bit whatever is embedded beside it or before: products round differently with their number of rows,
and that is here a block's, always the same, in which a row comes out the same in every place (`block_rows`).

Yang et al. 2020, https://arxiv.org/abs/1907.04307; the architecture is read from the package's `backends.numpy`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from groundwire_encoder.files import UseArrays

    Floats = NDArray[np.float32]
    Tokens = NDArray[np.int64]

EMBEDDING, WIDTH = 512, 256
ORDERS = ((2, 0), (3, 1), (5, 2))
"""Width of each convolution's window, and how much of it stands to the left."""
GAP = 2
"""The most that a window reaches to one side."""
BLOCKS = (24, 8, 4, 1)
"""Rows of a product, the first that will do: with fewer than 24, reading the weights costs more than the products. Of OpenBLAS 0.3.31's
kernels those for AVX2 (``OPENBLAS_CORETYPE=Haswell``, ``Zen``) keep rows alike in blocks of 4 and 8 alone; the others in all of these."""
TEXTS = 8
"""The most of those over whole texts."""
MAX_ROWS = 2048
"""Tokens whose rows are kept, 13 KB each: in a language, nine of ten."""


class TokenRows:
    """What of tokens does not depend on their neighbours. Threads may share one: what was written never changes."""

    def __init__(self, arrays: UseArrays, most: int = MAX_ROWS) -> None:
        weights, names = arrays.weights, [n for n, _ in ORDERS]
        self._table, self._scale, self._lo = arrays.table, weights["scale"], weights["lo"]
        self._projection = np.concatenate([weights[f"proj{n}"] for n in names], axis=1)
        self._bias = np.concatenate([weights[f"proj_b{n}"] for n in names])
        self._gamma = np.concatenate([weights[f"ln_g{n}"] for n in names])
        self._beta = np.concatenate([weights[f"ln_b{n}"] for n in names])
        self._eps = float(weights["eps"].reshape(-1)[0])
        shares = [weights[f"w1_{n}"].reshape(n, WIDTH, WIDTH).transpose(1, 0, 2).reshape(WIDTH, n * WIDTH) for n in names]
        self._shares = [np.ascontiguousarray(share) for share in shares]
        self.width = WIDTH * (len(ORDERS) + sum(names))
        self._most, self._lock = most, threading.Lock()
        self._kept = _Kept(len(self._table), most, self.width)

    def embeddings(self, tokens: Tokens) -> Floats:
        """``(tokens, 512)``"""
        found = self._table[tokens].astype(np.float32)
        block = tokens % len(self._scale)
        found *= self._scale[block, None]
        found += self._lo[block, None]
        return found

    def of(self, tokens: Tokens) -> tuple[Floats, Tokens]:
        """Rows, and for each of `tokens` its place among them: the projection, and then its share by convolution and place in the window.
        The last row is nothing's.
        """
        kept = self.learnt(tokens)
        if kept is None:
            distinct, inverse = np.unique(tokens, return_inverse=True)
            return np.concatenate([self._computed(distinct), np.zeros((1, self.width), np.float32)]), inverse
        return kept.rows, kept.place_of[tokens]

    def learnt(self, tokens: Tokens) -> _Kept | None:
        """Rows of all of `tokens`, those that are new computed together; None where they are too many to be kept."""
        kept = self._kept
        if (kept.place_of[tokens] >= 0).all():
            return kept
        distinct = np.unique(tokens)
        if len(distinct) > self._most or (kept.place_of[distinct] < 0).sum() > self._most // 2:
            return None
        return self._add(distinct)

    def _add(self, wanted: Tokens) -> _Kept:
        with self._lock:
            kept = self._kept  # another thread may have added what was missing, or have begun anew without what was there
            missing = wanted[kept.place_of[wanted] < 0]
            if not len(missing):
                return kept
            if kept.count + len(missing) > self._most:
                kept, missing = _Kept(len(self._table), self._most, self.width), wanted
            kept.add(missing, self._computed(missing))
            self._kept = kept
            return kept

    def _computed(self, tokens: Tokens) -> Floats:
        projected = product(self.embeddings(tokens), self._projection, block_rows())
        projected += self._bias
        normalise(projected, self._gamma, self._beta, self._eps)
        parts = [projected]
        for i, share in enumerate(self._shares):
            parts.append(product(np.ascontiguousarray(projected[:, i * WIDTH : (i + 1) * WIDTH]), share, block_rows()))
        return np.concatenate(parts, axis=1)


class _Kept:
    """Rows by token. Grows, and is left to the collector when it is full."""

    def __init__(self, vocabulary: int, most: int, width: int) -> None:
        self.place_of = np.full(vocabulary, -1, np.int64)
        self.rows: Floats = np.empty((most + 1, width), np.float32)
        self.rows[most] = 0.0
        self.count = 0

    def add(self, tokens: Tokens, rows: Floats) -> None:
        """The rows before the places: who sees a place finds the row."""
        until = self.count + len(tokens)
        self.rows[self.count : until] = rows
        self.place_of[tokens] = np.arange(self.count, until)
        self.count = until


class UseForward:
    """Threads may share one."""

    def __init__(self, arrays: UseArrays) -> None:
        weights = arrays.weights
        self._weights = weights
        self._eps = float(weights["eps"].reshape(-1)[0])
        self.rows = TokenRows(arrays)

    def learn(self, texts: Sequence[Tokens]) -> None:
        """The rows of new tokens, once for all `texts`: so that their passes need not."""
        self.rows.learnt(np.concatenate(texts))

    def sums(self, texts: Sequence[Tokens]) -> Floats:
        """``(len(texts), 1280)``, in one pass: what `closed` makes vectors of, the features of each text's tokens together.

        All is laid out by place, the texts behind each other with a gap between, so that a window is a run of rows.
        """
        lengths = np.array([len(text) for text in texts])
        ends = np.cumsum(lengths + GAP) - GAP  # nothing between the texts: no window reaches from one into the next
        block = block_rows()
        size = -(-int(ends[-1]) // block) * block
        at = np.arange(int(lengths.sum())) + np.repeat(ends - np.cumsum(lengths), lengths)
        tokens = np.concatenate(texts)
        rows, places = self.rows.of(tokens)
        padded = np.full(size + 4 * GAP, len(rows) - 1)
        padded[at + 2 * GAP] = places
        features = np.zeros((size, EMBEDDING + WIDTH * len(ORDERS)), np.float32)
        features[at, :EMBEDDING] = self.rows.embeddings(tokens)
        for i in range(len(ORDERS)):
            features[:, EMBEDDING + i * WIDTH : EMBEDDING + (i + 1) * WIDTH] = self._second(self._first(rows, padded, i), i)
        scaled(features, self._eps)  # by gamma, and beta, the sums alone are: 1 row a text
        found = np.stack([features[end - length : end].sum(axis=0) for end, length in zip(ends, lengths, strict=True)])
        found *= self._weights["ln_g"]
        found += lengths.astype(np.float32)[:, None] * self._weights["ln_b"]
        return found

    def _first(self, rows: Floats, padded: Tokens, i: int) -> Floats:
        """``(len(padded) - 2 * GAP, WIDTH)``: the first convolution and what it is added to; zero where no token is."""
        n, left = ORDERS[i]
        size, share = len(padded) - 2 * GAP, WIDTH * (len(ORDERS) + sum(other for other, _ in ORDERS[:i]))
        hidden: Floats = rows[:, share : share + WIDTH][padded[GAP - left : GAP - left + size]]
        for k in range(1, n):
            hidden += rows[:, share + k * WIDTH : share + (k + 1) * WIDTH][padded[GAP - left + k : GAP - left + k + size]]
        hidden += self._weights[f"b1_{n}"]
        np.maximum(hidden, 0, out=hidden)
        here = padded[GAP:-GAP]
        hidden += rows[:, i * WIDTH : (i + 1) * WIDTH][here]
        hidden[here == len(rows) - 1] = 0
        return hidden

    def _second(self, hidden: Floats, i: int) -> Floats:
        """``(len(hidden) - 2 * GAP, WIDTH)``: the second convolution, and what it is added to."""
        n, left = ORDERS[i]
        windows = sliding_window_view(hidden[GAP - left : len(hidden) - GAP - left + n - 1], n, axis=0).transpose(0, 2, 1)
        found = product(windows.reshape(len(windows), n * WIDTH), self._weights[f"w2_{n}"], block_rows())
        found += self._weights[f"b2_{n}"]
        np.maximum(found, 0, out=found)
        found += hidden[GAP:-GAP]
        return found

    def closed(self, total: Floats, texts: Sequence[Tokens]) -> Floats:
        """``(len(texts), 512)``, of unit length: the layers over whole texts, whose `sums` are `total`."""
        w, count = self._weights, len(total)
        lengths = np.array([len(text) for text in texts], np.float32)[:, None]
        block = min(TEXTS, block_rows())
        total, lengths = filled(total, block), filled(lengths, block, 1.0)
        mean = product(total, w["cnn_W"], block)
        mean += lengths * w["cnn_b"]
        mean *= np.reciprocal(np.sqrt(lengths))
        first = np.maximum(product(mean, w["d0"], block), 0)
        second = product(mean, w["p1"], block)
        second += product(first, w["d1"], block)
        np.maximum(second, 0, out=second)
        third = np.maximum(product(second, w["d2"], block), 0)
        z = product(second, w["p3"], block)
        z += product(third, w["d3"], block)
        np.tanh(z, out=z)
        size = np.sqrt(np.maximum(np.einsum("ij,ij->i", z, z), np.float32(self._eps))).astype(np.float32)
        found: Floats = z[:count] / size[:count, None]
        return found


@cache
def block_rows() -> int:
    """Rows of a block of which equal ones come out equal, to the last bit, on this processor."""
    rng = np.random.default_rng(0)
    row, weights = rng.standard_normal((1, EMBEDDING), np.float32), rng.standard_normal((EMBEDDING, WIDTH), np.float32)
    found = (np.repeat(row, rows, axis=0) @ weights for rows in BLOCKS)
    return next(len(rows) for rows in found if (rows == rows[0]).all())


def product(x: Floats, weights: Floats, block: int) -> Floats:
    """``x @ weights``, `block` rows at a time."""
    rows = filled(x, block)
    found: Floats = (rows.reshape(-1, block, x.shape[1]) @ weights).reshape(len(rows), -1)[: len(x)]
    return found


def filled(x: Floats, block: int, value: float = 0.0) -> Floats:
    """`x` with rows of `value` up to a multiple of `block`."""
    lacking = -len(x) % block
    return np.concatenate([x, np.full((lacking, *x.shape[1:]), value, np.float32)]) if lacking else x


def normalise(x: Floats, gamma: Floats, beta: Floats, eps: float) -> None:
    """Each row, in place: Ba et al. 2016, https://arxiv.org/abs/1607.06450."""
    scaled(x, eps)
    x *= gamma
    x += beta


def scaled(x: Floats, eps: float) -> None:
    """Each row, in place, to a mean of 0 and a variance of 1."""
    x -= x.mean(axis=-1, keepdims=True)
    variance = np.einsum("ij,ij->i", x, x) / x.shape[-1]
    x *= np.reciprocal(np.sqrt(variance + np.float32(eps)))[:, None]
