"""An encoder and a verifier's model that tell what they were given, and can be held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support


class _Counting:
    """`held()` stops it at the next batch."""

    def __init__(self, batch: int = 1) -> None:
        self.batch, self.lanes = batch, 1
        self.calls: list[list[str]] = []
        self.loads = 0
        self.broken = False
        self.reached, self._gate = threading.Event(), threading.Event()
        self._gate.set()

    def load(self) -> None:
        self.loads += 1
        if self.broken:
            raise ModelUnavailable("install it")

    def _take(self, items: list[str]) -> None:
        self.calls.append(items)
        self.reached.set()
        assert self._gate.wait(20)
        if "bad" in items:
            raise ValueError("cannot read bad")

    @property
    def seen(self) -> list[str]:
        return [item for items in self.calls for item in items]

    @contextmanager
    def held(self) -> Iterator[None]:
        self._gate.clear()
        self.reached.clear()
        try:
            yield
        finally:
            self._gate.set()

    async def running(self) -> None:
        """Until the thread holds a batch."""
        assert await asyncio.to_thread(self.reached.wait, 20)


class CountingEncoder(_Counting):
    """A vector is the text's length and its first character."""

    name, dimensions, weights = "counting", 2, "counting-1"

    def version(self) -> str:
        return self.weights

    def rough(self, texts: list[str]) -> None:
        return None

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self._take(texts)
        return np.array([[len(text), ord(text[0]) if text else 0] for text in texts], np.float32)


class CountingModel(_Counting):
    """Its answer tells the claim."""

    name = "counting@1"

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        self._take([p.claim for p in pairs])
        return [answer(p.claim) if p.language == "en" else None for p in pairs]


def pair(claim: str, evidence: str = "e", language: str = "en") -> ClaimPair:
    return ClaimPair(claim, evidence, language)


def answer(claim: str) -> Support:
    return Support(len(claim) / 1000, 0.0, claim)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
