"""Any embedding model that sentence-transformers can load, by its name on the Hugging Face hub or from a folder.

Needs the extra ``groundwire[sentence-transformers]``, which brings torch. A name is downloaded by the library when the model is first
loaded, a folder never is. What the model's own configuration says of pooling, prompts and its longest input is kept: longer texts are
cut there. Code that a model brings along is not run (``trust_remote_code`` stays off).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelUnavailable
from proxy.models.embedding.use import available_cores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
