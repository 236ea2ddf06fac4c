"""Tokenised examples in one file, and the order in which they are shown: a pure function of the seed, so that a training resumes anywhere.

A pack is a folder: ``train.npz`` and ``development.npz`` (token ids, where an example begins, its target, source, language, set) beside the
tokenizer and the start weights. In: `Example`s and a tokenizer. Out: batches of `Encoded`. numpy only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.grounding.data import Example

MAX_TOKENS = 352
"""Of claim and evidence; the evidence is cut first. Whole written documents in German and French come to about 330."""
MAX_CLAIM_CHARS = 700
_TEXT = np.dtype("U24")


@dataclass(slots=True, frozen=True)
class Encoded:
    """An example as the model reads it (as `training.grounding.train.collate` takes it)."""

    ids: NDArray[np.int32]
    claim_tokens: int
    """Tokens up to and with the separator behind the claim: segment 0."""
    target: int


@dataclass(slots=True, frozen=True)
class Pack:
    """Encoded examples: `ids` is all of them one after another, `starts` (one more than examples) where each begins."""

    ids: NDArray[np.uint16]
    starts: NDArray[np.int64]
    claim_tokens: NDArray[np.uint16]
    targets: NDArray[np.uint8]
    sources: NDArray[np.str_]
    languages: NDArray[np.str_]
    sets: NDArray[np.int32]
    """Examples that are forms of one sentence, shown in one way, have the same number; -1: it stands alone."""

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: int) -> Encoded:
        ids = self.ids[self.starts[i] : self.starts[i + 1]].astype(np.int32)
        return Encoded(ids, int(self.claim_tokens[i]), int(self.targets[i]))

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each example."""
        return np.diff(self.starts)

    def where(self, kept: NDArray[np.bool_]) -> Pack:
        """The examples for which `kept`, ``(n,)``, is true, in their order."""
        lengths = self.lengths()
        own = self.targets[kept], self.sources[kept], self.languages[kept], self.sets[kept]
        return Pack(self.ids[np.repeat(kept, lengths)], np.cumsum([0, *lengths[kept]]), self.claim_tokens[kept], *own)

    def save(self, path: Path) -> None:
        """Write it to `path`, compressed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **{name: getattr(self, name) for name in Pack.__slots__})

    @classmethod
    def load(cls, path: Path) -> Pack:
        """Raises `SystemExit` with a sentence where there is none."""
        if not path.exists():
            raise SystemExit(f"{path} is missing: run python -m training.judge pack first")
        with np.load(path) as saved:
            return cls(**{name: saved[name] for name in Pack.__slots__})


def pack(examples: Sequence[Example], tokenizer: Tokenizer, max_tokens: int = MAX_TOKENS) -> Pack:
    """Encode `examples`. Raises `ValueError` for a vocabulary of more than 65,536 tokens."""
    if tokenizer.get_vocab_size() > 1 << 16:
        raise ValueError("token ids are kept in two bytes: the vocabulary is too large")
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy="only_second")
    ids: list[NDArray[np.uint16]] = []
    claims: list[int] = []
    for start in range(0, len(examples), 2048):
        part = [(e.claim[:MAX_CLAIM_CHARS], e.evidence or "-") for e in examples[start : start + 2048]]
        for encoded in tokenizer.encode_batch(part):
            ids.append(np.array(encoded.ids[:max_tokens], np.uint16))
            claims.append(next((i for i, s in enumerate(encoded.sequence_ids) if s == 1), len(ids[-1])))
    tokenizer.no_truncation()
    return Pack(
        np.concatenate(ids),
        np.cumsum([0, *map(len, ids)]),
        np.array(claims, np.uint16),
        np.array([e.target for e in examples], np.uint8),
        np.array([e.source for e in examples], _TEXT),
        np.array([e.language for e in examples], _TEXT),
        _sets(examples),
    )


def _sets(examples: Sequence[Example]) -> NDArray[np.int32]:
    numbers: dict[tuple[str, str], int] = {}
    return np.array([numbers.setdefault((e.source, e.contrast), len(numbers)) if e.contrast else -1 for e in examples], np.int32)


class Rounds:
    """The order of showing: round after round of about `tokens` tokens, each with every group's share of them.

    A group's examples come in a random order of their own, all once before any comes again; those of a set come together, in one batch.
    Which examples a round has follows from the seed and its number alone.
    """

    def __init__(
        self,
        lengths: NDArray[np.int64],
        groups: Sequence[str | None],
        shares: dict[str, float],
        tokens: int,
        seed: int,
        sets: NDArray[np.int32] | None = None,
    ) -> None:
        """`groups` names the group of each example; None, and groups without a share, are not shown. `sets` as `Pack` has them."""
        members: dict[str, dict[int, list[int]]] = {name: {} for name in shares}
        for i, name in enumerate(groups):
            if name in members:
                key = -1 - i if sets is None or sets[i] < 0 else int(sets[i])
                members[name].setdefault(key, []).append(i)
        self._members = {name: list(own.values()) for name, own in members.items() if own}
        total = sum(shares[name] for name in self._members)
        self._counts = {
            name: max(1, round(tokens * shares[name] / total / (sum(int(lengths[unit].sum()) for unit in own) / len(own))))
            for name, own in self._members.items()
        }
        self._lengths, self._seed = lengths, seed
        self._order = cache(self._ordered)

    def round(self, number: int) -> list[int]:
        """Positions of the examples of round `number`."""
        return [i for unit in self._units(number) for i in unit]

    def _units(self, number: int) -> Iterator[list[int]]:
        for name, own in self._members.items():
            first = number * self._counts[name]
            for place in range(first, first + self._counts[name]):
                turn, at = divmod(place, len(own))
                yield own[self._order(name, turn)[at]]

    def batches(self, number: int, batch_tokens: int) -> Iterator[list[int]]:
        """A round in batches of at most `batch_tokens` tokens with padding (a set alone may be more), of examples of about the same
        length, in random order.
        """
        made: list[list[int]] = [[]]
        for longest, unit in sorted((int(self._lengths[unit].max()), unit) for unit in self._units(number)):
            if made[-1] and (len(made[-1]) + len(unit)) * longest > batch_tokens:
                made.append([])
            made[-1] += unit
        random.Random(f"{self._seed}.{number}").shuffle(made)
        yield from made

    def _ordered(self, name: str, turn: int) -> list[int]:
        order = list(range(len(self._members[name])))
        random.Random(f"{self._seed}.{name}.{turn}").shuffle(order)
        return order
