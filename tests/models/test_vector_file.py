"""Vectors that outlive the process: what is there again, and what goes wrong with a disk without anybody's request going wrong."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from proxy.models.embedding.embedder import BatchingEmbedder, key_of
from proxy.models.embedding.vector_file import VectorFile
from tests.models.counting import CountingEncoder

MB = 1024 * 1024
Start = Callable[..., tuple[BatchingEmbedder, CountingEncoder]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


@pytest.fixture
async def start(folder: Path) -> AsyncIterator[Start]:
    """A worker with an encoder of its own."""
    made: list[BatchingEmbedder] = []

    def start(weights: str = "counting-1", cache_mb: float = 1) -> tuple[BatchingEmbedder, CountingEncoder]:
        encoder = CountingEncoder()
        encoder.weights = weights
        made.append(BatchingEmbedder(encoder, cache_mb=cache_mb, vector_file=VectorFile(folder, encoder.version, MB)))
        return made[-1], encoder

    yield start
    for embedder in made:
        embedder.stop()


def file_of(folder: Path) -> Path:
    (found,) = folder.glob("*.sqlite")
    return found


async def filled(start: Start, folder: Path, *texts: str) -> Path:
    """The file after a worker has been there."""
    embedder, _ = start()
    await embedder.embed(texts or ["aaa", "b"], keep=True)
    embedder.stop()
    return file_of(folder)


def rows(count: int, first: int = 0) -> dict[bytes, NDArray[np.float32]]:
    return {i.to_bytes(16, "big"): np.full((1, 512), i, np.float32) for i in range(first, first + count)}


# ---- what is there again ----


async def test_after_a_restart_the_model_is_not_asked_again(start: Start, folder: Path) -> None:
    embedder, _ = start()
    before = await embedder.embed(["aaa", "b", "aaa"], keep=True)
    embedder.stop()
    again, encoder = start()
    assert (before == await again.embed(["aaa", "b", "aaa"], keep=True)).all()
    assert [] == encoder.seen


async def test_only_what_is_new_is_asked_for(start: Start, folder: Path) -> None:
    await filled(start, folder, "aaa", "b")
    again, encoder = start()
    found = await again.embed(["b", "cc", "aaa"], keep=True)
    assert ["cc"] == encoder.seen
    assert (found == await BatchingEmbedder(CountingEncoder()).embed(["b", "cc", "aaa"])).all()


async def test_without_room_in_memory_the_disk_is_enough(start: Start, folder: Path) -> None:
    await filled(start, folder)
    again, encoder = start(cache_mb=0)
    assert (2, 2) == (await again.embed(["aaa", "b"], keep=True)).shape
    assert [] == encoder.seen


async def test_another_worker_finds_what_one_has_made(start: Start, folder: Path) -> None:
    one, _ = start()
    other, encoder = start()
    await other.embed(["z"], keep=True)
    await one.embed(["aaa"], keep=True)
    assert one._vector_file is not None
    await one._vector_file.get([key_of("none")])  # behind what is still being written
    await other.embed(["aaa"], keep=True)
    assert ["z"] == encoder.seen


async def test_workers_that_write_at_once_lose_nothing(folder: Path) -> None:
    workers = [VectorFile(folder, lambda: "m", 8 * MB) for _ in range(4)]
    for number in range(4):
        for worker, vector_file in enumerate(workers):
            vector_file.put(rows(20, first=1000 * worker + 100 * number))
    for vector_file in workers:
        vector_file.stop()
    found = await VectorFile(folder, lambda: "m", 8 * MB).get([i.to_bytes(16, "big") for i in range(4000)])
    assert 4 * 4 * 20 == len(found)
    assert all(int.from_bytes(key, "big") == row[0, 0] for key, row in found.items())


async def test_what_nobody_said_to_keep_is_not_kept(start: Start, folder: Path) -> None:
    embedder, _ = start()
    await embedder.embed(["question"])
    await embedder.embed(["a question", "its words"], together=True)
    embedder.stop()
    assert not folder.exists()


async def test_what_is_unknown_is_counted_once(start: Start, folder: Path) -> None:
    await filled(start, folder, "aaa")
    again, _ = start()
    await again.embed(["b"])
    assert 2 == await again.unknown(["aaa", "b", "c", "c", "d"])


# ---- whose they are, and what they tell ----


async def test_other_weights_have_vectors_of_their_own(start: Start, folder: Path) -> None:
    await filled(start, folder)
    other, encoder = start(weights="counting-2")
    await other.embed(["aaa"], keep=True)
    assert ["aaa"] == encoder.seen
    other.stop()
    assert 2 == len(list(folder.glob("*.sqlite")))


async def test_a_model_whose_weights_are_not_known_keeps_nothing(start: Start, folder: Path) -> None:
    embedder, _ = start(weights="")
    await embedder.embed(["aaa"], keep=True)
    embedder.stop()
    assert not folder.exists()


async def test_no_text_is_on_the_disk_and_nobody_else_may_read_it(start: Start, folder: Path) -> None:
    await filled(start, folder, "the patient's name is Ada")
    assert b"Ada" not in b"".join(each.read_bytes() for each in folder.iterdir())
    assert 0o700 == folder.stat().st_mode & 0o777


# ---- what goes wrong ----


@pytest.mark.parametrize(
    "torn", [lambda data: b"no database", lambda data: data[: len(data) // 2], lambda data: b"\0" * len(data), lambda data: b""]
)
async def test_a_torn_file_is_begun_anew(torn: Callable[[bytes], bytes], start: Start, folder: Path) -> None:
    file = await filled(start, folder, *map(str, range(500)))
    file.write_bytes(torn(file.read_bytes()))
    texts = [str(i) for i in range(500)]
    for _ in range(3):  # it is noticed, begun anew, and filled
        again, encoder = start()
        assert (500, 2) == (await again.embed(texts, keep=True)).shape
        again.stop()
    assert [] == encoder.seen


async def test_on_a_full_disk_nothing_is_kept_and_everything_is_answered(start: Start, folder: Path) -> None:
    embedder, encoder = start()
    await embedder.embed(["aaa"], keep=True)
    vector_file = embedder._vector_file
    assert vector_file is not None
    await vector_file.get([key_of("aaa")])
    assert vector_file._connection is not None
    vector_file._connection.execute("PRAGMA max_page_count = 1").fetchall()
    texts = [f"{i} " * 20 for i in range(3000)]
    assert (3000, 2) == (await embedder.embed(texts, keep=True)).shape
    assert (1, 2) == (await embedder.embed(["aaa"], keep=True)).shape
    assert 3001 == len(encoder.seen)


async def test_where_no_folder_can_be_made_everything_is_answered(start: Start, folder: Path) -> None:
    folder.write_text("a file")
    for _ in range(5):
        embedder, encoder = start()
        assert (1, 2) == (await embedder.embed(["aaa"], keep=True)).shape
        assert ["aaa"] == encoder.seen


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
async def test_in_a_folder_that_cannot_be_written_to_everything_is_answered(start: Start, folder: Path) -> None:
    folder.mkdir(mode=0o500)
    embedder, _ = start()
    assert (1, 2) == (await embedder.embed(["aaa"], keep=True)).shape


# ---- how much there is ----


async def test_what_was_not_used_for_longest_makes_room(folder: Path) -> None:
    day = 1.0
    vector_file = VectorFile(folder, lambda: "m", MB, clock=lambda: day * 86_400)
    used = [i.to_bytes(16, "big") for i in range(10)]
    vector_file.put(rows(300))
    assert 10 == len(await vector_file.get(used))
    day = 2.0
    assert 10 == len(await vector_file.get(used))
    vector_file.put(rows(300, first=1000))
    assert 10 == len(await vector_file.get(used))
    assert 300 == len(await vector_file.get(list(rows(300, first=1000))))
    assert not await vector_file.get(list(rows(20, first=10)))
    vector_file.stop()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MB


async def test_more_than_there_is_room_for_is_not_kept(folder: Path) -> None:
    vector_file = VectorFile(folder, lambda: "m", 1)
    vector_file.put(rows(50))
    assert {} == await vector_file.get(list(rows(50)))
    vector_file.stop()
