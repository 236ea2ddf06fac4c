"""The vectors of a knowledge base: kept on disk, searched through the smallest FAISS index that finds nearly what a full search does.

Which index a base gets goes by its size, by measurement (`benchmarks/knowledge.py`): up to `FLAT_FACTS` every vector is compared (float32,
exact); above, inverted lists over vectors of 8 bits a dimension (`IVF<lists>,SQ8`). What the index brings up is ordered again by the
exact vectors, which are read from disk (float16, 2 bytes a dimension, memory-mapped), so that compression costs candidates, not order.

The index is made anew from the vectors in every build: it takes seconds where embedding takes minutes, and the same facts give the same
index whatever was built before.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

FLAT_FACTS = 20_000
"""512 dimensions: 40 MB and a few milliseconds a search."""
LISTS_PER_ROOT = 2
"""Lists for each square root of the number of facts: 2,000 for a million."""
PROBED_PER_ROOT = 1.5
"""Lists that a search looks into for each square root of their number: 34 of 512, 68 of 2,048."""
TRAINED_PER_LIST = 64
"""Vectors that the lists' centres are found from; FAISS asks for at least 39."""
_TRAINED_ROUNDS = 8
_BLOCK = 65_536
SEED = 20240501


def kind_for(facts: int) -> str:
    """``flat``, or a FAISS factory string, for so many facts."""
    if facts <= FLAT_FACTS:
        return "flat"
    return f"IVF{max(64, 2 ** round(math.log2(LISTS_PER_ROOT * math.sqrt(facts))))},SQ8"


def make_index(vectors: NDArray[np.float16] | Floats, kind: str = "", threads: int = 1) -> Any:
    """A FAISS index (inner product) over ``(n, d)`` vectors of unit length."""
    faiss.omp_set_num_threads(threads)
    n, dimensions = vectors.shape
    kind = kind or kind_for(n)
    if kind == "flat":
        index: Any = faiss.IndexFlatIP(dimensions)
    else:
        index = faiss.index_factory(dimensions, kind, faiss.METRIC_INNER_PRODUCT)
        _train(index, vectors)
    for start in range(0, n, _BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32))
    return index


def _train(index: Any, vectors: NDArray[np.float16] | Floats) -> None:
    """On a sample that is the same for the same vectors."""
    inverted = faiss.try_extract_index_ivf(index)
    lists = inverted.nlist if inverted is not None else 256
    if inverted is not None:
        inverted.cp.niter, inverted.cp.seed = _TRAINED_ROUNDS, SEED
        inverted.cp.max_points_per_centroid = TRAINED_PER_LIST
    count = min(len(vectors), lists * TRAINED_PER_LIST)
    sample = np.sort(np.random.default_rng(SEED).choice(len(vectors), count, replace=False))
    index.train(np.ascontiguousarray(vectors[sample], np.float32))


def probe(index: Any) -> Any:
    """`index`, told how many of its lists to look into."""
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        inverted.nprobe = round(PROBED_PER_ROOT * math.sqrt(inverted.nlist))
    return index


def write_index(index: Any, path: Path) -> None:
    """To a file."""
    faiss.write_index(index, str(path))


def read_index(path: Path) -> Any:
    """From a file, which is mapped into memory and not copied: all workers of a server share its pages."""
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)


def nearest(index: Any, vectors: Floats, most: int) -> NDArray[np.int64]:
    """``(len(vectors), most)`` rows, best first; -1 where there are fewer."""
    faiss.omp_set_num_threads(1)  # of this thread: a search takes less than waking others does
    _, rows = index.search(np.ascontiguousarray(vectors, np.float32), min(most, index.ntotal))
    found: NDArray[np.int64] = rows
    return found
