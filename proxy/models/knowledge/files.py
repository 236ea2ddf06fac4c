"""The index of a knowledge base on disk: what its files are, how they are put in the place of the ones before, and who may write.

    FOLDER/.index/current          one line: the name of the generation that counts
    FOLDER/.index/lock             held by the build that writes
    FOLDER/.index/<generation>/    manifest.json, facts.jsonl, vectors.npy, vectors.faiss and the arrays of `ARRAYS`

A generation is written under another name, forced to disk, renamed, and only then named by ``current``, itself replaced in one step:
who reads finds the old one or the new one, whole. The one before the current stays until the next build, for those who are just opening it.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, convert
from numpy.typing import NDArray

from proxy.errors import ConfigError

FORMAT = 1
FOLDER = ".index"
ARRAYS = ("offsets", "names", "starts", "rows", "exact_names", "exact_rows", "keys")
"""Each a ``.npy`` file, memory-mapped."""
_PARTIAL = ".partial-"


class Manifest(Struct, frozen=True, kw_only=True):
    """``manifest.json``"""

    format: int
    version: str
    """Hash of all facts, their order and sources, and of the embedder's name."""
    embedder: str
    dimensions: int
    facts: int
    kind: str
    """Of the vector index."""
    files: Mapping[str, tuple[int, int]]
    """Size and time of change (nanoseconds) of each file that was read, by path."""
    made_at: float


def current_of(folder: Path) -> Path | None:
    """The generation that counts, None where nothing was built."""
    try:
        name = (folder / FOLDER / "current").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeError) as error:
        raise ConfigError(str(folder / FOLDER / "current"), "", f"cannot be read: {error}") from error
    return folder / FOLDER / Path(name).name


_HEADER_BYTES = 256
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype>[<|][iuf]\d)', 'fortran_order': False, 'shape': \((?P<shape>[\d, ]*)\), \} *\n", re.DOTALL
)
"""Of version 1.0, which is what a plain array of at most a few dimensions has."""


def manifest_of(generation: Path) -> Manifest:
    """Raises `ConfigError` where it cannot be read, or another release wrote it."""
    path = generation / "manifest.json"
    try:
        raw = json.loads(path.read_bytes())
        if raw.get("format") != FORMAT:
            raise ConfigError(
                str(path), "format", f"another release built it ({raw.get('format')}, not {FORMAT}): {build_command(generation)}"
            )
        return convert(raw, Manifest)
    except FileNotFoundError as error:
        raise ConfigError(str(path), "", f"is missing: {build_command(generation)}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), "", f"cannot be read ({error}): {build_command(generation)}") from error


def build_command(generation_or_folder: Path) -> str:
    """What to run."""
    at = generation_or_folder
    return f"run groundwire knowledge build {at.parent.parent if at.parent.name == FOLDER else at}"


def read_array(generation: Path, name: str) -> NDArray[Any]:
    """Memory-mapped, but for an empty one, which cannot be. Raises `ValueError` for what `numpy.save` does not write.

    Not `numpy.load`: it reads the header by `ast`, which fails in two threads at a time (Python before 3.12, gh-106905).
    """
    path = generation / f"{name}.npy"
    with path.open("rb") as file:
        header = _HEADER.match(file.read(_HEADER_BYTES))
    if header is None:
        raise ValueError(f"{path} is no array")
    shape = tuple(int(length) for length in header["shape"].split(b",") if length.strip())
    dtype = np.dtype(header["dtype"].decode())
    return np.memmap(path, dtype, "r", header.end(), shape) if math.prod(shape) else np.empty(shape, dtype)


def stamps_of(folder: Path, files: list[str]) -> dict[str, tuple[int, int]]:
    """Size and time of change of each file; one that has gone meanwhile is left out."""
    found = {}
    for path in files:
        try:
            status = (folder / path).stat()
        except OSError:
            continue
        found[path] = (status.st_size, status.st_mtime_ns)
    return found


@contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """The folder of indexes while no other build writes. Raises `ConfigError` where one does, or the folder cannot be written."""
    where = folder / FOLDER
    try:
        where.mkdir(exist_ok=True)
        lock = (where / "lock").open("a+b")
    except OSError as error:
        raise ConfigError(str(where), "", f"cannot be written: {error.strerror}") from error
    with lock:
        if not _locked(lock.fileno()):
            raise ConfigError(str(where), "", "another build of this folder is running")
        yield where  # closing the file ends the lock, also when the process dies


def _locked(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: builds of one folder at the same time are the operator's to avoid
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def start_generation(where: Path, version: str) -> Path:
    """A folder to write into; what an earlier build left unfinished goes."""
    for old in where.glob(f"{_PARTIAL}*"):
        shutil.rmtree(old, ignore_errors=True)
    partial = where / f"{_PARTIAL}{version}"
    partial.mkdir()
    return partial


def finish_generation(partial: Path, manifest: Manifest) -> Path:
    """Put it in the place of the current one."""
    (partial / "manifest.json").write_text(json.dumps(manifest_fields(manifest), indent=1), encoding="utf-8")
    for path in partial.iterdir():
        _forced(path)
    where, before = partial.parent, current_of(partial.parent.parent)
    name = _free_name(where, manifest.version)
    partial.rename(where / name)
    pointer = where / "current.new"
    pointer.write_text(name + "\n", encoding="ascii")
    _forced(pointer)
    pointer.replace(where / "current")
    for old in where.iterdir():
        if old.is_dir() and old.name != name and (before is None or old.name != before.name):
            shutil.rmtree(old, ignore_errors=True)
    return where / name


def manifest_fields(manifest: Manifest) -> dict[str, Any]:
    """For JSON."""
    return {name: getattr(manifest, name) for name in Manifest.__struct_fields__}


def _free_name(where: Path, version: str) -> str:
    """The version, or with a number behind it where the same contents are built again."""
    names = (version, *(f"{version}-{i}" for i in range(2, 1000)))
    return next(name for name in names if not (where / name).exists())


def _forced(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
