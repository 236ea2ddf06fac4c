"""A low-rank difference to the shipped verifier (Hu et al. 2021, arXiv 2106.09685): its layers, its logits, and its file.

The verifier's own weights stay as they are, so that what it says of answers cannot change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from proxy.models.verifier.onnx import FOLDER as SHIPPED
from training.grounding.encoder import Encoder

FIRST = 4
"""Layers below stay without a difference: what they make of a pair is computed once."""
RANK = 12
CLASH = "clash.onnx"
_OUTSIDE_BYTES = 4096
"""A smaller weight is written anew."""


class LowRank(nn.Module):
    """A frozen matrix with a trained difference of `RANK`."""

    def __init__(self, whole: nn.Linear, rank: int) -> None:
        super().__init__()
        self.whole = whole.requires_grad_(requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, whole.in_features) / whole.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(whole.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear`."""
        return self.whole(x) + F.linear(F.linear(x, self.down), self.up)


def with_difference(model: Encoder, first: int = FIRST, rank: int = RANK) -> Encoder:
    """`model` in place: layers from `first` on have a difference, and the head its own weights."""
    model.requires_grad_(requires_grad=False)
    for layer in model.layers[first:]:
        for name in ("qkv", "out", "up", "down"):
            setattr(layer, name, LowRank(getattr(layer, name), rank))
    model.pooler.requires_grad_()
    model.head.requires_grad_()
    return model


def upper(model: Encoder, x: Tensor, mask: Tensor, first: int = FIRST) -> Tensor:
    """``(batch, 3)`` logits of what the lower layers made."""
    seen = mask.bool()[:, None, None, :]
    for layer in model.layers[first:]:
        x = layer(x, seen)
    logits: Tensor = model.head(torch.tanh(model.pooler(x[:, 0])))
    return logits


def losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy; where a target is `COMPATIBLE`, that of supported and unsupported together."""
    logs = F.log_softmax(logits.float(), -1)
    joined = torch.logsumexp(logs[:, :2], -1, keepdim=True)
    return -torch.cat([logs, joined, joined], -1).gather(1, targets[:, None])[:, 0]


def export(checkpoint: Path, out: Path) -> None:
    """``clash.onnx``, whose large weights are those of the shipped ``model.onnx`` beside it, by their places in that file."""
    import onnx
    from onnx import helper, numpy_helper

    saved = torch.load(checkpoint, weights_only=True)
    trained = {name: value.detach().numpy() for name, value in saved["trained"].items()}
    whole = (SHIPPED / "model.onnx").read_bytes()
    made = onnx.load_from_string(whole)
    graph = made.graph
    names = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[Any] = []

    def half(name: str, value: NDArray[np.float32]) -> str:
        if name not in names:
            names[name] = numpy_helper.from_array(np.ascontiguousarray(value.astype(np.float16)), name + ".half")
            nodes.append(helper.make_node("Cast", [name + ".half"], [name], name=name, to=onnx.TensorProto.FLOAT))
        return name

    for node in list(graph.node):
        at, _, part = node.name.rpartition(".")
        matrix, third = (f"{at}.qkv", "qkv".index(part)) if part in ("q", "k", "v") else (node.name, -1)
        if node.op_type == "Gemm":
            for i, kind in ((1, "weight"), (2, "bias")):
                node.input[i] = half(f"spoken.{node.name}.{kind}", trained[f"{'head' if node.name == 'logits' else node.name}.{kind}"])
        nodes.append(node)
        if node.op_type != "DynamicQuantizeMatMul" or f"{matrix}.up" not in trained:
            continue
        up = trained[f"{matrix}.up"]
        up = up if third < 0 else np.split(up, 3)[third]
        x, output = node.input[0], node.output[0]
        node.output[0] = output + ".whole"
        down = half(f"{matrix}.spoken.down", trained[f"{matrix}.down"].T)
        if not any(other.name == f"{matrix}.narrow" for other in nodes):
            nodes.append(helper.make_node("MatMul", [x, down], [f"{matrix}.narrow"], name=f"{matrix}.narrow"))
        wide = half(f"{output}.spoken.up", up.T)
        nodes.append(helper.make_node("MatMul", [f"{matrix}.narrow", wide], [f"{output}.wide"], name=f"{output}.wide"))
        nodes.append(helper.make_node("Add", [f"{output}.whole", f"{output}.wide"], [output], name=f"{output}.both"))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in names.values() if tensor.name in used]
    for tensor in kept:
        if len(tensor.raw_data) > _OUTSIDE_BYTES and (begin := whole.find(tensor.raw_data)) >= 0:
            _keep_outside(tensor, begin)
    del graph.initializer[:]
    graph.initializer.extend(kept)
    out.mkdir(parents=True, exist_ok=True)
    (out / CLASH).write_bytes(made.SerializeToString())
    print(f"{out / CLASH}: {(out / CLASH).stat().st_size:,} bytes, of {saved['state']['tokens']:,} tokens")


def _keep_outside(tensor: Any, begin: int) -> None:
    """Have `tensor` read from ``model.onnx``, from that byte on."""
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = 1  # TensorProto.EXTERNAL
    for key, value in (("location", "model.onnx"), ("offset", begin), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
