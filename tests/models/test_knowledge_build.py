"""Building the index on disk: incremental, atomic, versioned."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxy.errors import ConfigError
from proxy.models.knowledge.bases import FILE
from proxy.models.knowledge.building import build, build_in_memory, facts_in, writing
from proxy.models.knowledge.index import KnowledgeIndex, open_index
from proxy.testing import HashEmbedder


class Counting(HashEmbedder):
    """Remembers what it embedded."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
        self.texts += [text for text in texts if text]
        return await super().embed(texts, bulk=bulk)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("subject,statement\nwater,Water is wet.\nfire,Fire is hot.\n")
    (tmp_path / "b.md").write_text("# Lampe\n\nDie Lampe wiegt 620 g.\n")
    return tmp_path


def opened(folder: Path) -> KnowledgeIndex:
    found = open_index(folder)
    assert found is not None
    return found


def statements(folder: Path) -> list[str]:
    index = opened(folder)
    return [index.fact(row).statement for row in range(len(index))]


async def test_a_build_can_be_opened_and_searched(folder: Path) -> None:
    built = await build(folder, HashEmbedder())
    index, manifest = (found := opened(folder)), found.manifest
    [[hit]] = index.search(["Wie viel wiegt die Lampe?"], await HashEmbedder().embed(["Wie viel wiegt die Lampe?"]), 1)
    assert ("Die Lampe wiegt 620 g.", "b.md#lampe") == (hit.fact.statement, hit.fact.source)
    assert (3, 3, "hash-64", built.version) == (built.facts, built.embedded, manifest.embedder, index.version)
    assert {"a.csv", "b.md"} == set(manifest.files)


async def test_built_and_in_memory_say_the_same(folder: Path) -> None:
    await build(folder, HashEmbedder())
    built, in_memory = opened(folder), await build_in_memory(list(facts_in(folder, [])), HashEmbedder())
    vectors = await HashEmbedder().embed(["hot water"])
    assert in_memory.version == built.version
    assert in_memory.search(["hot water"], vectors, 3) == built.search(["hot water"], vectors, 3)
    assert in_memory.exact("fire is hot") == built.exact("fire is hot") is not None


async def test_only_what_is_new_is_embedded_again(folder: Path) -> None:
    await build(folder, Counting())
    (folder / "a.csv").write_text("subject,statement\nwater,Water is wet.\nice,Ice is cold.\n")
    embedder = Counting()
    built = await build(folder, embedder)
    assert (["Ice is cold."], 1, 1) == (embedder.texts, built.embedded, built.removed)
    assert ["Water is wet.", "Ice is cold.", "Die Lampe wiegt 620 g."] == statements(folder)


async def test_nothing_is_embedded_where_a_file_is_only_renamed(folder: Path) -> None:
    await build(folder, Counting())
    (folder / "a.csv").rename(folder / "z.csv")
    assert 0 == (await build(folder, Counting())).embedded


async def test_deleted_facts_go(folder: Path) -> None:
    await build(folder, HashEmbedder())
    (folder / "a.csv").unlink()
    built = await build(folder, HashEmbedder())
    assert (["Die Lampe wiegt 620 g."], 2) == (statements(folder), built.removed)


async def test_an_update_gives_the_index_that_a_first_build_gives(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    await build(folder, HashEmbedder())
    (folder / "c.jsonl").write_text('{"statement": "Ice is cold."}\n')
    await build(folder, HashEmbedder())
    fresh = tmp_path_factory.mktemp("fresh")
    for name in ("a.csv", "b.md", "c.jsonl"):
        shutil.copyfile(folder / name, fresh / name)
    await build(fresh, HashEmbedder())
    assert contents(fresh) == contents(folder)


def contents(folder: Path) -> tuple[list[str], bytes]:
    """The tables but for the manifest, which has times, and the vector index."""
    with closing(sqlite3.connect(folder / ".index" / FILE)) as file:
        lines = [line for line in file.iterdump() if "manifest" not in line]
    return lines, (folder / ".index" / opened(folder).manifest.faiss).read_bytes()


async def test_the_same_contents_have_the_same_version(folder: Path) -> None:
    first, second = (await build(folder, HashEmbedder())), (await build(folder, HashEmbedder()))
    assert (first.version, 0) == (second.version, second.embedded)


async def test_another_embedder_embeds_everything_again(folder: Path) -> None:
    class Other(Counting):
        name = "hash-65"

    before = await build(folder, HashEmbedder())
    after = await build(folder, Other())
    assert (3, True) == (after.embedded, before.version != after.version)


async def test_an_empty_folder_has_an_index_of_nothing(tmp_path: Path) -> None:
    built = await build(tmp_path, HashEmbedder())
    index = opened(tmp_path)
    assert (0, 0, None) == (built.facts, len(index), index.exact("Water is wet."))


async def test_bad_rows_are_told(folder: Path) -> None:
    (folder / "a.csv").write_text("statement\nWater is wet.\n?\n\nwet,too,many\n")
    assert ["a.csv:3", "a.csv:5"] == [str(problem).rsplit(":", 1)[0][:7] for problem in (await build(folder, HashEmbedder())).problems]


async def test_a_build_that_breaks_off_leaves_the_one_before(folder: Path) -> None:
    class Failing(HashEmbedder):
        async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
            if bulk:
                raise OSError("no space left")
            return await super().embed(texts)

    await build(folder, HashEmbedder())
    (folder / "c.csv").write_text("statement\nIce is cold.\n")
    with pytest.raises(OSError, match="no space left"):
        await build(folder, Failing())
    assert ["Water is wet.", "Fire is hot.", "Die Lampe wiegt 620 g."] == statements(folder)
    await build(folder, HashEmbedder())
    assert "Ice is cold." in statements(folder)


async def test_unfinished_and_old_indexes_are_cleared_away_but_the_last_one_stays(folder: Path) -> None:
    names = []
    for number in range(3):
        (folder / f"more{number}.csv").write_text(f"statement\nFact number {number}.\n")
        await build(folder, HashEmbedder())
        names.append(opened(folder).manifest.faiss)
        (folder / ".index" / f"{FILE}.new").write_bytes(b"of a build that was killed")
    await build(folder, HashEmbedder())
    assert {"lock", FILE, names[-1], opened(folder).manifest.faiss} == {path.name for path in (folder / ".index").iterdir()}


async def test_what_an_earlier_release_built_is_refused_with_the_command_to_run_which_takes_it_away(folder: Path) -> None:
    (folder / ".index" / "0123456789abcdef").mkdir(parents=True)
    (folder / ".index" / "current").write_text("0123456789abcdef")
    with pytest.raises(ConfigError, match=f"another release built it: run groundwire knowledge build {folder}"):
        open_index(folder)
    await build(folder, HashEmbedder())
    assert 3 == len(statements(folder))
    assert ["current", "0123456789abcdef"] == [name for name in ("current", "0123456789abcdef") if not (folder / ".index" / name).exists()]


async def test_a_second_build_at_the_same_time_is_refused(folder: Path) -> None:
    with writing(folder), pytest.raises(ConfigError, match="another build of this folder is running"):
        await build(folder, HashEmbedder())
    assert 3 == (await build(folder, HashEmbedder())).facts


@pytest.mark.process
async def test_a_lock_goes_with_its_process(folder: Path) -> None:
    script = f"from pathlib import Path\nfrom proxy.models.knowledge.building import writing\nimport os\nwith writing(Path({str(folder)!r})): os._exit(1)"
    assert 1 == subprocess.run([sys.executable, "-c", script], check=False).returncode
    assert 3 == (await build(folder, HashEmbedder())).facts


async def test_a_reader_sees_one_build_or_the_next_and_nothing_between(folder: Path) -> None:
    """A thread opens what counts again and again while builds follow each other, each with other facts."""
    for name in ("a.csv", "b.md"):
        (folder / name).unlink()
    vector = np.eye(1, 64, dtype=np.float32)
    seen: set[frozenset[str]] = set()
    failures: list[Exception] = []
    stop = threading.Event()

    def facts(number: int) -> list[str]:
        return [f"Build {number} says line {line}." for line in range(20)]

    def read() -> None:
        while not stop.is_set():
            try:
                [hits] = opened(folder).search(["build says line"], vector, 50)
                seen.add(frozenset(hit.fact.statement for hit in hits))
            except Exception as error:
                failures.append(error)
                return

    (folder / "a.csv").write_text("\n".join(["statement", *facts(0)]))
    await build(folder, HashEmbedder())
    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 9):
        (folder / "a.csv").write_text("\n".join(["statement", *facts(number)]))
        await build(folder, HashEmbedder())
    stop.set()
    reader.join()
    assert [] == failures
    assert seen <= {frozenset(facts(number)) for number in range(9)}
    assert seen


@pytest.mark.parametrize(("damage", "said"), [("{", "cannot be read"), ('{"format": 0}', "another release built it")])
async def test_a_manifest_that_cannot_be_used_is_refused_with_the_command_to_run(folder: Path, damage: str, said: str) -> None:
    await build(folder, HashEmbedder())
    with closing(sqlite3.connect(folder / ".index" / FILE)) as file:
        file.execute("UPDATE manifest SET value = ?", (damage,))
        file.commit()
    with pytest.raises(ConfigError, match=f"{said}.*run groundwire knowledge build {folder}"):
        open_index(folder)
    assert 3 == (await build(folder, HashEmbedder())).embedded


async def test_a_torn_file_is_refused_with_the_command_to_run(folder: Path) -> None:
    await build(folder, HashEmbedder())
    (folder / ".index" / FILE).write_bytes(b"torn" * 1000)
    with pytest.raises(ConfigError, match=f"cannot be read.*run groundwire knowledge build {folder}"):
        open_index(folder)
    assert 3 == (await build(folder, HashEmbedder())).embedded
