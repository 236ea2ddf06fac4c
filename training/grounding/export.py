"""Encoder -> ONNX with quantised weights, built node by node: what is in the file is what is written here.

Matrices are 8 bit with a scale for each output (``com.microsoft.DynamicQuantizeMatMul``: activations are scaled by the whole input, so that
one pair should be run at a time; the few inputs of a matrix that are many times larger than the others can stay in full precision, as in
Dettmers et al. 2022, arXiv 2208.07339), the word vectors 4 bit (``GatherBlockQuantized``), positions, norms and biases float32. The head
reads the first token alone, and the last layer is computed for no other one: 7% less time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from training.grounding.encoder import LABELS, Encoder, distance_buckets

WORD_BLOCK = 64
OPSET = 20
Integers = NDArray[np.int64]
Floats = NDArray[np.float32]


class _Graph:
    """Nodes and weights as they are added."""

    def __init__(self, apart: Mapping[str, Integers]) -> None:
        """`apart`: see `export`."""
        self._apart = apart
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.weights.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        domain = "com.microsoft" if kind in ("DynamicQuantizeMatMul", "GatherBlockQuantized", "MultiHeadAttention") else ""
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def linear(self, x: str, name: str, weight: Floats, bias: Floats, group: str = "") -> str:
        """``x @ weight.T + bias``; `weight` is ``(out, in)``. Matrices of one `group`, its own name by default, share their input."""
        columns = self._apart.get(group or name)
        x, few = (x, "") if columns is None else self._split(x, group or name, name, weight, columns)
        scale = np.maximum(np.abs(weight).max(1), 1e-12) / 127
        codes = np.clip(np.round(weight / scale[:, None]), -127, 127).astype(np.int8)
        inputs = [
            x,
            self.constant(name + ".weight", codes.T),
            self.constant(name + ".scale", scale.astype(np.float32)),
            "",
            self.constant(name + ".bias", bias),
        ]
        found = self.node("DynamicQuantizeMatMul", inputs, name + ".of many" if few else name)
        return self.node("Add", [found, few], name) if few else found

    def _split(self, x: str, group: str, name: str, weight: Floats, columns: Integers) -> tuple[str, str]:
        """`x` without the inputs `columns`, and what those alone come to, in full precision; once for all matrices of a `group`."""
        rest, few = group + ".rest", group + ".few"
        if not any(node.name == rest for node in self.nodes):
            kept = np.ones(weight.shape[1], np.float32)
            kept[columns] = 0
            self.node("Mul", [x, self.constant(group + ".kept", kept)], rest)
            self.node("Gather", [x, self.constant(group + ".columns", columns)], few, axis=2)
        return rest, self.node("MatMul", [few, self.constant(name + ".apart", weight[:, columns].T)], name + ".of few")

    def words(self, ids: str, table: Floats) -> str:
        """Rows of `table` in 4 bit blocks."""
        rows, hidden = table.shape
        blocks = table.reshape(rows, hidden // WORD_BLOCK, WORD_BLOCK)
        scale = _scales(blocks)
        codes = np.clip(np.round(blocks / scale[..., None]), -8, 7).astype(np.int8).reshape(rows, hidden)
        packed = ((codes[:, 0::2] & 15) | ((codes[:, 1::2] & 15) << 4)).astype(np.uint8)
        self.weights.append(helper.make_tensor("words", TensorProto.INT4, [rows, hidden], packed.tobytes(), raw=True))
        inputs = ["words", ids, self.constant("words.scale", scale.astype(np.float16))]
        half = self.node("GatherBlockQuantized", inputs, "word16", gather_axis=0, quantize_axis=1, block_size=WORD_BLOCK)
        return self.node("Cast", [half], "word", to=TensorProto.FLOAT)


def _scales(blocks: Floats) -> Floats:
    """For each block the scale, of a few, with the least squared error in 4 bits."""
    top = np.maximum(np.abs(blocks).max(-1), 1e-8)
    best, least = top / 7, np.full(top.shape, np.inf, np.float32)
    for divisor in (6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 10.0):
        scale = top / divisor
        error = ((np.clip(np.round(blocks / scale[..., None]), -8, 7) * scale[..., None] - blocks) ** 2).sum(-1)
        best = np.where(error < least, scale, best)
        least = np.minimum(error, least)
    return best.astype(np.float16).astype(np.float32)


def _distances(g: _Graph, table: Floats, longest: int) -> str:
    """``(1, heads, length, length)``: what `Encoder.relative` adds to the attention from a token to another."""
    buckets = distance_buckets(longest, len(table)).numpy()
    by_distance = np.concatenate([buckets[-1, :-1], buckets[0]])  # from that of the last token to the first, to the other way round
    row = g.node("Unsqueeze", ["places", g.constant("axis0", np.array([0], np.int64))], "row")
    column = g.node("Unsqueeze", ["places", g.constant("axis1", np.array([1], np.int64))], "column")
    away = g.node("Sub", [row, column], "away")
    at = g.node("Add", [away, g.constant("farthest", np.array(longest - 1, np.int64))], "distance")
    found = g.node("Gather", [g.constant("relative", table[by_distance]), at], "relative.found")
    return g.node("Unsqueeze", [g.node("Transpose", [found], "relative.heads", perm=[2, 0, 1]), "axis0"], "bias")


def export(model: Encoder, path: Path, apart: Mapping[str, Integers] | None = None, longest: int = 0) -> int:
    """Write `model` to `path`; its size in bytes. Inputs: int64 ``input_ids``, ``attention_mask``, ``token_type_ids``.

    `apart`: by matrix ("layers.0.up") those of its inputs that stay in full precision; none by default. `longest`: tokens of the longest
    pair that it will be given; 0: as many as it has positions.
    """
    weights = {name: value.detach().float().numpy() for name, value in model.state_dict().items()}
    heads, eps, layers = model.config["heads"], model.config["eps"], model.config["layers"]
    first_position = model.config["first_position"]
    g = _Graph(apart or {})
    last = first_position + longest if longest else len(weights["position.weight"])
    length = g.node("Gather", [g.node("Shape", ["input_ids"], "shape"), g.constant("one", np.array(1, np.int64))], "length", axis=0)
    zero, step = g.constant("zero", np.array(0, np.int64)), g.constant("step", np.array(1, np.int64))
    places = g.node("Range", [zero, length, step], "places")
    position = g.node("Gather", [g.constant("positions", weights["position.weight"][first_position:last]), places], "position")
    segment = g.node("Gather", [g.constant("segments", weights["segment.weight"]), "token_type_ids"], "segment")
    x = g.node("Add", [g.node("Add", [g.words("input_ids", weights["word.weight"]), segment], "word+segment"), position], "embedded")
    mask = g.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    bias = [_distances(g, weights["relative.weight"], last - first_position)] if model.config["buckets"] else []

    def norm(x: str, name: str, output: str) -> str:
        scale, bias = (g.constant(f"{name}.{kind}", weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        return g.node("LayerNormalization", [x, scale, bias], output, axis=-1, epsilon=eps)

    x = norm(x, "norm", "normed")
    for i in range(layers):
        at = f"layers.{i}."
        q, k, v = (
            g.linear(x, at + "qkv"[j], part, bias, at + "qkv")
            for j, (part, bias) in enumerate(
                zip(np.split(weights[at + "qkv.weight"], 3), np.split(weights[at + "qkv.bias"], 3), strict=True)
            )
        )
        if i == layers - 1:  # what it makes of the other tokens nobody reads
            reader = g.constant("reader", np.array([0], np.int64))
            q, x = (g.node("Gather", [each, reader], f"reader.{name}", axis=1) for name, each in (("q", q), ("x", x)))
            bias = [g.node("Gather", [one, reader], "reader.bias", axis=2) for one in bias]
        seen = g.node("MultiHeadAttention", [q, k, v, "", mask, *bias], at + "attended", num_heads=heads)
        out = g.linear(seen, at + "out", weights[at + "out.weight"], weights[at + "out.bias"])
        x = norm(g.node("Add", [x, out], at + "residual1"), at + "norm1", at + "normed1")
        up = g.node("Gelu", [g.linear(x, at + "up", weights[at + "up.weight"], weights[at + "up.bias"])], at + "gelu")
        down = g.linear(up, at + "down", weights[at + "down.weight"], weights[at + "down.bias"])
        x = norm(g.node("Add", [x, down], at + "residual2"), at + "norm2", at + "normed2")
    first = g.node("Gather", [x, zero], "first", axis=1)
    gemm = {name: [g.constant(f"{name}.{kind}", weights[f"{name}.{kind}"]) for kind in ("weight", "bias")] for name in ("pooler", "head")}
    pooled = g.node("Tanh", [g.node("Gemm", [first, *gemm["pooler"]], "pooler", transB=1)], "pooled")
    g.node("Gemm", [pooled, *gemm["head"]], "logits", transB=1)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(LABELS)])
    graph = helper.make_graph(g.nodes, "groundwire-verifier", inputs, [output], g.weights)
    opsets = [helper.make_opsetid("", OPSET + 1), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="groundwire")
    made.ir_version = 10
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(made, str(path))
    return path.stat().st_size
