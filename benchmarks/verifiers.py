"""The verifier that the benchmarks judge with: the built-in one, or that of the folder which the environment's ``VERIFIER`` names, with the
built-in one for the languages that it does not know: ``VERIFIER=packages/large-verifier python -m benchmarks.answers``.
"""

from __future__ import annotations

import os
from pathlib import Path

from proxy.models.embedding.encoders import available_cores
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
from proxy.models.verifier.verifier import CACHE_SIZE, LocalVerifiers, PairModel, WithFallback


def local_verifiers(cache_size: int = CACHE_SIZE) -> LocalVerifiers:
    """One model for all names; `cache_size` judgements are kept."""
    return LocalVerifiers(lambda _: _model(), cache_size=cache_size)


def result_file(path: Path) -> Path:
    """Where figures go: `path`, and beside it those of another verifier than the built-in one."""
    folder = os.environ.get("VERIFIER")
    return path.with_stem(f"{path.stem}-{Path(folder).name}") if folder else path


def _model() -> PairModel:
    builtin, folder = OnnxVerifier(FOLDER, available_cores()), os.environ.get("VERIFIER")
    return WithFallback(OnnxVerifier(Path(folder), available_cores()), builtin) if folder else builtin
