"""The built-in model itself: it loads in below a second."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import numpy as np
import pytest

from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.use import UseEncoder

ODD = [
    "",
    " ",
    "\n\t \r",
    "\x00",
    "a\x00b",
    "\u200b\ufeff",
    "😀👩‍👩‍👧‍👦🇩🇪",
    "\ud800",
    "x\udfffy",
    "e\u0301" * 40,
    "‏שלום",
    "ﷺ" * 20,
    "a" * 100_000,
    "很" * 9000,
]

SAME = [
    ["How do I get to the railway station?", "Wie komme ich zum Bahnhof?", "¿Cómo llego a la estación de tren?", "去火车站怎么走？"],
    ["My invoice is wrong.", "Meine Rechnung stimmt nicht.", "Mi factura está equivocada.", "我的发票有错误。"],
    ["It will snow tomorrow.", "Morgen wird es schneien.", "Mañana va a nevar.", "明天会下雪。"],
]


@pytest.fixture(scope="module")
def encoder() -> UseEncoder:
    made = UseEncoder()
    made.load()
    return made


@pytest.fixture
async def embedder(encoder: UseEncoder) -> AsyncIterator[BatchingEmbedder]:
    made = BatchingEmbedder(encoder)
    yield made
    made.stop()


async def test_any_text_has_a_vector_of_unit_length(embedder: BatchingEmbedder) -> None:
    found = await embedder.embed(ODD)
    assert (len(ODD), 512) == found.shape
    assert np.isfinite(found).all()
    assert np.abs(1 - np.linalg.norm(found, axis=1)).max() < 1e-5


async def test_a_vector_is_the_same_to_the_bit_whatever_is_embedded_beside_it(encoder: UseEncoder) -> None:
    texts = [text for row in SAME for text in row] + [f"{row[0]} {row[1]} " * 9 for row in SAME]
    one, many = BatchingEmbedder(encoder), BatchingEmbedder(encoder)
    alone = [(await one.embed([text]))[0] for text in texts]
    asked = [many.embed(texts[i:] + texts[:i]) for i in range(3)] + [many.embed([texts[0]], bulk=True)]
    together = await asyncio.gather(*asked)
    assert (np.stack(alone) == together[0]).all()
    one.stop()
    many.stop()


async def test_the_same_sentence_is_nearest_in_another_language(embedder: BatchingEmbedder) -> None:
    vectors = (await embedder.embed([text for row in SAME for text in row])).reshape(len(SAME), 4, 512)
    for one, other in itertools.permutations(range(4), 2):
        likeness = vectors[:, one] @ vectors[:, other].T
        assert [0, 1, 2] == likeness.argmax(axis=1).tolist()
        assert likeness.diagonal().min() > 0.4
