"""The models that config.yaml describes. Their modules are imported when they are made, and nothing is loaded before its first use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proxy.config.sections import cache_folder
from proxy.config.settings import Settings
from proxy.models.verifier.verifier import LARGE, LocalVerifiers, PairModel
from proxy.ports import ToolOutcomes

if TYPE_CHECKING:
    from proxy.models.embedding.embedder import BatchingEmbedder
    from proxy.models.tools.ranker import EmbeddingToolRanker


def make_models(settings: Settings, outcomes: ToolOutcomes) -> tuple[BatchingEmbedder, EmbeddingToolRanker]:
    """What compares texts; the model itself is loaded later."""
    from proxy.models.tools.ranker import EmbeddingToolRanker

    embedder = make_embedder(settings)
    return embedder, EmbeddingToolRanker(embedder, outcomes)


def make_embedder(settings: Settings) -> BatchingEmbedder:
    """The embedder that ``embeddings:`` describes; its model is loaded by `load`, or by the first text."""
    from proxy.models.embedding.embedder import BatchingEmbedder, Encoder
    from proxy.models.embedding.kept import KeptVectors
    from proxy.models.embedding.sentence_transformers import SentenceTransformersEncoder
    from proxy.models.embedding.use import UseEncoder

    given = settings.embeddings
    folder = Path(settings.folder) / given.model
    encoder: Encoder = UseEncoder(given.threads)
    if given.kind == "sentence-transformers":
        encoder = SentenceTransformersEncoder(str(folder) if folder.is_dir() else given.model, given.threads or 1)
    kept = KeptVectors(cache_folder() / "vectors", encoder.version, given.disk_mb * 1024 * 1024) if given.disk_mb else None
    return BatchingEmbedder(encoder, max_chars=given.max_chars, cache_mb=given.cache_mb, kept=kept)


def make_verifiers(settings: Settings) -> LocalVerifiers:
    """The verifiers that ``grounding:`` describes; nothing is loaded yet."""
    given = settings.grounding
    return LocalVerifiers(
        lambda name: make_pair_model(settings, name),
        cache_size=given.cache_size,
        max_waiting=given.max_waiting,
        large=bool(given.large),
    )


def make_pair_model(settings: Settings, name: str) -> PairModel:
    """The verifier's model called `name`, or the built-in one for ""; called in its thread, where it may take its time to import."""
    from proxy.models.embedding.use import available_cores
    from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
    from proxy.models.verifier.sentence_transformers import TransformersVerifier

    given = settings.grounding
    threads = given.threads or min(2, available_cores())
    if name in ("", LARGE):
        own = given.large if name == LARGE else given.model
        return OnnxVerifier(Path(settings.folder) / own if own else FOLDER, threads)
    folder = Path(settings.folder) / name
    return TransformersVerifier(str(folder) if folder.is_dir() else name, threads)
