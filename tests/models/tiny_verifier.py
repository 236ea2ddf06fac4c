"""A verifier in the built-in format, of a few words: made here, so that nothing is downloaded and every logit is known.

The logits are the sum over all tokens of the word's row in `WORDS`, and those of the evidence (segment 1) count twice.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = {
    "[PAD]": (9, 9, 9),
    "[UNK]": (0, 0, 0),
    "[CLS]": (0, 0, 0),
    "[SEP]": (0, 0, 0),
    "yes": (1, 0, 0),
    "maybe": (0, 1, 0),
    "no": (0, 0, 1),
    "nan": (float("nan"), 0, 0),
    "-": (0, 0, 0),
}


def make(folder: Path, kind: int = TensorProto.INT64, width: int = 3, model: bytes = b"", **card: Any) -> Path:
    """Write the three files; `card` replaces fields of verifier.json, `model` the weights."""
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(model or _model(kind, width).SerializeToString())
    (folder / "tokenizer.json").write_text(_tokenizer().to_str())
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("model.onnx", "tokenizer.json")}
    fields = {"name": "tiny", "version": "7", "sha256": sums, "max_tokens": 16, "languages": {"en": {}}, "metrics": {"for": "people"}}
    (folder / "verifier.json").write_text(json.dumps({**fields, **card}))
    return folder


def _tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_padding(length=12)  # as exported tokenizers often have it; it must not count
    return made


def _model(kind: int, width: int) -> onnx.ModelProto:
    table = numpy_helper.from_array(np.array(list(WORDS.values()), np.float32)[:, :width], "table")
    axes, last = (numpy_helper.from_array(np.array([i], np.int64), name) for i, name in ((1, "axes"), (-1, "last")))
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Add", ["token_type_ids", "attention_mask"], ["times"]),
        helper.make_node("Cast", ["times"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weights", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted", "axes"], ["logits"], keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info(name, kind, ["b", "n"]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", width])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, [table, axes, last])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
