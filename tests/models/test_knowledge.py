"""The knowledge bases of a server: loaded once, taken over when they change, refused where they cannot be used."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigError, ModelUnavailable
from proxy.models.knowledge import bases as knowledge
from proxy.models.knowledge.bases import FolderKnowledge, FolderKnowledgeBases, check_folder
from proxy.models.knowledge.building import build
from proxy.testing import HashEmbedder


class Now:
    """A clock that stands."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "a.csv").write_text("statement\nWater is wet.\n")
    return tmp_path / "facts"


def write(folder: Path, *statements: str) -> None:
    (folder / "a.csv").write_text("\n".join(["statement", *statements, ""]))


async def test_a_relative_folder_starts_at_the_config_file(folder: Path) -> None:
    bases = FolderKnowledgeBases(folder.parent, HashEmbedder())
    assert bases.get("facts") is bases.get(str(folder))
    assert 1 == (await bases.get("facts").current()).size


def test_a_missing_folder_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/nowhere: no such folder of facts"):
        FolderKnowledgeBases(tmp_path, HashEmbedder()).get("nowhere")


async def test_nothing_can_be_asked_before_it_is_loaded(folder: Path) -> None:
    base = FolderKnowledge(folder, HashEmbedder())
    asked: list[Callable[[], Any]] = [lambda: base.version, lambda: base.size]
    for ask in asked:
        with pytest.raises(ModelUnavailable, match="still loading"):
            ask()
    await base.current()
    assert (1, True, None) == (base.size, (await base.exact(["Water is wet."])) != [None], base.problem)


async def test_many_who_ask_at_first_share_one_load(folder: Path) -> None:
    base = FolderKnowledge(folder, HashEmbedder())
    found = await asyncio.gather(*(base.current() for _ in range(20)))
    assert 1 == len({id(snapshot) for snapshot in found})


async def test_a_changed_file_of_a_small_folder_is_taken_over_without_a_restart(folder: Path) -> None:
    base = FolderKnowledge(folder, HashEmbedder(), check_s=0)
    before = await base.settled()
    write(folder, "Water is wet.", "Fire is hot.")
    after = await base.settled()
    assert (1, 2, True) == (before.size, after.size, before.version != after.version)


async def test_what_is_held_stays_as_it_was(folder: Path) -> None:
    base = FolderKnowledge(folder, HashEmbedder(), check_s=0)
    held = await base.settled()
    write(folder, "Fire is hot.")
    await base.settled()
    [[hit]] = await held.search(["Water is wet."], k=1)
    assert ("Water is wet.", None) == (hit.fact.statement, (await held.exact(["Fire is hot."]))[0])


async def test_a_build_is_taken_over_without_a_restart(folder: Path) -> None:
    base = FolderKnowledge(folder, HashEmbedder(), check_s=0)
    await base.settled()
    await build(folder, HashEmbedder())
    await base.settled()
    write(folder, "Fire is hot.")
    assert "Water is wet." == (await (await base.settled()).exact(["water is wet"]))[0].statement  # type: ignore[union-attr]
    built = await build(folder, HashEmbedder())
    after = await base.settled()
    assert (built.version, None) == (after.version, (await after.exact(["Water is wet."]))[0])


async def test_the_old_facts_are_used_while_the_new_ones_are_loaded(folder: Path) -> None:
    class Slow(HashEmbedder):
        def __init__(self) -> None:
            self.go = asyncio.Event()
            self.go.set()

        async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
            if bulk:
                await self.go.wait()
            return await super().embed(texts)

    embedder = Slow()
    base = FolderKnowledge(folder, embedder, check_s=0)
    old = await base.settled()
    write(folder, "Fire is hot.")
    embedder.go.clear()
    assert old is await base.current() is await base.current()
    embedder.go.set()
    assert "Fire is hot." == (await (await base.settled()).exact(["fire is hot"]))[0].statement  # type: ignore[union-attr]


async def test_a_folder_is_looked_at_once_a_second(folder: Path) -> None:
    clock = Now()
    base = FolderKnowledge(folder, HashEmbedder(), clock=clock)
    first = await base.settled()
    write(folder, "Fire is hot.")
    assert first is await base.settled()
    clock.time = 1.0
    assert first is not await base.settled()


async def test_what_is_broken_meanwhile_does_not_take_the_old_facts_away(folder: Path) -> None:
    base = FolderKnowledge(folder, HashEmbedder(), check_s=0)
    await build(folder, HashEmbedder())
    old = await base.settled()
    write(folder, "Fire is hot.")
    await build(folder, HashEmbedder())
    (folder / ".index" / "facts.sqlite").write_bytes(b"torn")
    assert (old, True) == (await base.settled(), "cannot be read" in str(base.problem))
    again = await build(folder, HashEmbedder())
    assert (again.version, None) == ((await base.settled()).version, base.problem)


async def test_an_embedder_that_fails_is_no_knowledge_base(folder: Path) -> None:
    class Broken(HashEmbedder):
        broken = True

        async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
            if self.broken:
                raise ModelUnavailable("no weights")
            return await super().embed(texts)

    embedder = Broken()
    base = FolderKnowledge(folder, embedder)
    with pytest.raises(ModelUnavailable, match="no weights"):
        await base.search(["Water is wet."])
    embedder.broken = False
    assert 1 == (await base.current()).size


async def test_another_embedders_index_is_refused_with_the_command_to_run(folder: Path) -> None:
    class Other(HashEmbedder):
        name = "hash-65"

    await build(folder, HashEmbedder())
    said = f"was built with the embedding model hash-64, and config.yaml has hash-65: run groundwire knowledge build {folder}"
    with pytest.raises(ConfigError, match=said):
        check_folder(folder, lambda: "hash-65")
    with pytest.raises(ModelUnavailable, match=said):
        await FolderKnowledge(folder, Other()).current()


async def test_a_large_folder_without_an_index_is_refused_with_the_command_to_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge, "MAX_UNBUILT_FACTS", 2)
    write(folder, "One.", "Two.")
    check_folder(folder, lambda: "hash-64")
    write(folder, "One.", "Two.", "Three.")
    with pytest.raises(ConfigError, match=f"has more than 2 facts and no index: run groundwire knowledge build {folder}"):
        check_folder(folder, lambda: "hash-64")
    await build(folder, HashEmbedder())
    check_folder(folder, lambda: "hash-64")


async def test_files_that_are_newer_than_the_index_are_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    await build(folder, HashEmbedder())
    await FolderKnowledge(folder, HashEmbedder()).current()
    assert "have changed since" not in caplog.text
    write(folder, "Fire is hot.")
    await FolderKnowledge(folder, HashEmbedder()).current()
    assert f"{folder}: files have changed since the index was built: run groundwire knowledge build {folder}" in caplog.text


@pytest.mark.process
async def test_two_processes_have_the_same_version_and_find_the_same(folder: Path) -> None:
    write(folder, *(f"Item {number} costs {number * 7} euros." for number in range(50)))
    script = (
        "import asyncio, json, sys\nfrom pathlib import Path\nfrom proxy.models.knowledge.bases import FolderKnowledge\n"
        "from proxy.testing import HashEmbedder\n"
        "async def main():\n    base = FolderKnowledge(Path(sys.argv[1]), HashEmbedder())\n"
        "    hits = await base.search(['What does item 12 cost?'], k=5)\n"
        "    print(json.dumps([base.version, [[h.fact.id, h.score] for h in hits[0]]]))\nasyncio.run(main())\n"
    )

    def worker() -> Any:
        return json.loads(subprocess.run([sys.executable, "-c", script, str(folder)], check=True, capture_output=True).stdout)

    in_memory = worker()
    await build(folder, HashEmbedder())
    assert in_memory == worker() == worker()
    assert 5 == len(in_memory[1])


@pytest.mark.process
def test_importing_it_imports_neither_numpy_nor_faiss() -> None:
    script = "import sys, proxy.models.knowledge.bases; sys.exit(bool({'numpy', 'faiss'} & set(sys.modules)))"
    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode
