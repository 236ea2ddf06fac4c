"""Knowledge bases on PostgreSQL: they find what a folder's index finds, take versions over at once, and write only what has changed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg  # type: ignore[import-untyped]
import pytest

from proxy.__main__ import main
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.errors import ConfigError, ModelUnavailable
from proxy.grounding.knowledge.reading import read_folder
from proxy.grounding.knowledge.retrieval import BuildReport, base_name
from proxy.models import making as builtin
from proxy.models.knowledge.building import build_in_memory
from proxy.ports import Embedder
from proxy.ports.facts import Fact, FactHit
from proxy.store.database import Database
from proxy.store.knowledge import StoredKnowledgeBases, tables_of
from proxy.store.knowledge_building import build
from proxy.store.records import RecordDetail, Records, read
from proxy.testing import HashEmbedder, serving
from tests.processes import write_config
from tests.store import postgres
from tests.store.conftest import execute
from tests.stores import opened

pytestmark = pytest.mark.postgres
EXAMPLES = Path(__file__).parents[2] / "examples" / "knowledge"
NEAR = 2e-6
"""Scores are rounded to six digits after sums of another order."""


@pytest.fixture
def kind() -> str:
    return "postgres"


@pytest.fixture
async def store(empty_url: str) -> AsyncIterator[Database]:
    """Without the extension, as a new database is."""
    async with opened(empty_url) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "facts").mkdir()
    write(tmp_path / "facts", "a.csv", "Water is wet.", "Fire is hot.")
    return tmp_path / "facts"


def write(folder: Path, name: str, *statements: str) -> None:
    (folder / name).write_text("\n".join(["statement", *(f'"{one}"' for one in statements), ""]))


class CountingEmbedder(HashEmbedder):
    """Counts the texts that builds have embedded."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Any, *, bulk: bool = False, **options: Any) -> Any:
        if bulk:
            self.texts += texts
        return await super().embed(texts)


async def built(folder: Path, store: Database, embedder: Embedder | None = None) -> BuildReport:
    return await build(folder, "facts", embedder or HashEmbedder(), store)


def bases(store: Database, folder: Path, embedder: Embedder | None = None) -> StoredKnowledgeBases:
    return StoredKnowledgeBases(store, embedder or HashEmbedder(), folder.parent)


def shown(hits: list[FactHit]) -> list[tuple[str, str]]:
    return [(hit.fact.id, hit.fact.source) for hit in hits]


QUERIES = (
    "How tall is the Eiffel Tower?",
    "The Eiffel Tower stands in Berlin.",
    "What is the boiling point of water?",
    "the of and",
    "Wie hoch ist der Eiffelturm?",
    "how bright is the lamp and what's it's 'price' \\ \"?",
    "zzz",
    "",
    "Who was the first to walk on the moon in 1969?",
    "kilometre mile",
)


def assert_same(expected: list[list[FactHit]], found: list[list[FactHit]]) -> None:
    """The same facts with the same scores, in the same order but where two scores are next to the same."""
    for there, here in zip(expected, found, strict=True):
        assert [hit.score for hit in there] == pytest.approx([hit.score for hit in here], abs=NEAR)
        swapped = [(a, b) for a, b in zip(there, here, strict=True) if a.fact.id != b.fact.id]
        assert all(any(abs(a.score - other.score) <= NEAR for other in there if other is not a) for a, _ in swapped)
        if not swapped:
            assert shown(there) == shown(here)


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_it_finds_what_a_folders_index_finds(store: Database, real: bool) -> None:
    embedder: Embedder = builtin.embedder() if real else HashEmbedder()
    facts = [fact for fact in read_folder(EXAMPLES) if isinstance(fact, Fact)]
    index = await build_in_memory(facts, embedder)
    done = await built(EXAMPLES, store, embedder)
    base = bases(store, EXAMPLES.parent / "facts", embedder).get("facts")
    queries = [*QUERIES, *(fact.statement for fact in facts[::3])]
    vectors = await embedder.embed(queries)
    assert (len(facts), len(facts)) == (done.facts, (await base.current()).size)
    assert_same(index.search(queries, vectors, 5), await base.search(queries, k=5))
    assert_same(index.search(queries, vectors, 20), await base.search(queries, k=20))
    assert [index.exact(one) for one in queries] == await base.exact(queries)


async def test_of_equals_the_earlier_one_comes_first(store: Database, folder: Path) -> None:
    for name in ("b.jsonl", "c.jsonl"):
        years = (2020, 2021) if name == "b.jsonl" else (2010, 2011)
        rows = (f'{{"statement": "Ada leads the team.", "valid_from": "{year}", "source": "{name} {year}"}}\n' for year in years)
        (folder / name).write_text("".join(rows))
    await built(folder, store)
    [hits] = await bases(store, folder).get("facts").search(["Ada leads the team."], k=4)
    assert ["b.jsonl 2020", "b.jsonl 2021", "c.jsonl 2010", "c.jsonl 2011"] == [hit.fact.source for hit in hits]


async def test_only_what_is_new_is_embedded_and_written(store: Database, folder: Path) -> None:
    write(folder, "b.csv", "Snow is white.", "Grass is green.")
    embedder = CountingEmbedder()
    first = await built(folder, store, embedder)
    write(folder, "b.csv", "Snow is white.", "Grass is brown.")
    second = await built(folder, store, embedder)
    assert ((4, 4, 0), (4, 1, 1)) == ((first.facts, first.embedded, first.removed), (second.facts, second.embedded, second.removed))
    assert "Grass is brown." == embedder.texts[-1]
    base = bases(store, folder).get("facts")
    assert [None, True] == [one and True for one in await base.exact(["Grass is green.", "Grass is brown."])]
    third = await built(folder, store, embedder)
    assert (second.version, 0, 0) == (third.version, third.embedded, third.removed)
    assert first.version != second.version


async def test_files_that_say_the_same_in_the_end_have_the_same_version(store: Database, folder: Path) -> None:
    first = await built(folder, store)
    write(folder, "a.csv", "Fire is cold.")
    await built(folder, store)
    write(folder, "a.csv", "Water is wet.", "Fire is hot.")
    assert first.version == (await built(folder, store)).version


async def test_a_fact_of_two_files_stays_when_the_first_of_them_goes(store: Database, folder: Path) -> None:
    write(folder, "b.csv", "Water is wet.", "Snow is white.")
    done = await built(folder, store)
    assert ["b.csv:2: says the same as a.csv"] == [str(one) for one in done.problems]
    base = bases(store, folder).get("facts")
    [before] = await base.exact(["Water is wet."])
    (folder / "a.csv").unlink()
    again = await built(folder, store)
    base = bases(store, folder).get("facts")
    [after] = await base.exact(["Water is wet."])
    assert before is not None
    assert after is not None
    assert (3, 2, "a.csv", "b.csv") == (done.facts, again.facts, before.source, after.source)


async def test_what_is_wrong_with_a_file_is_said_by_every_build(store: Database, folder: Path) -> None:
    (folder / "b.jsonl").write_text('{"statement": "Snow is white."}\nno JSON\n')
    problems = [[one.kind for one in (await built(folder, store)).problems] for _ in range(2)]
    assert [["bad"], ["bad"]] == problems


async def test_every_process_takes_a_version_over_and_who_began_with_one_ends_with_it(
    store: Database, folder: Path, empty_url: str
) -> None:
    await built(folder, store)
    async with opened(empty_url) as elsewhere:
        nodes = [bases(store, folder), bases(elsewhere, folder)]
        for node in nodes:
            node.get("facts")
            await node.load()
        held = await nodes[0].get("facts").current()
        write(folder, "a.csv", "Fire is cold.")
        done = await built(folder, store)
        async with asyncio.timeout(10):
            while {node.versions["facts"] for node in nodes} != {done.version}:
                await asyncio.sleep(0.05)
        [[old]], [[new]] = await held.search(["Fire is hot."], k=1), await nodes[1].get("facts").search(["Fire is hot."], k=1)
        assert ("Fire is hot.", "Fire is cold.") == (old.fact.statement, new.fact.statement)
        for node in nodes:
            await node.stop()


async def test_a_base_that_was_not_built_is_said_with_the_command_to_run(store: Database, folder: Path) -> None:
    found = bases(store, folder)
    base = found.get("facts")
    with pytest.raises(
        ModelUnavailable,
        match="knowledge in PostgreSQL needs the extension vector, which the store does not have: run CREATE EXTENSION vector",
    ):
        await base.current()
    await build(folder, "others", HashEmbedder(), store)
    await found.look()
    assert "facts: is not in the store: run groundwire knowledge build facts" == found.problem


async def test_another_embedders_base_is_refused_and_its_own_is_built_beside_it(store: Database, folder: Path) -> None:
    class Other(HashEmbedder):
        name = "hash-65"

    await built(folder, store)
    with pytest.raises(ModelUnavailable, match=r"was built with the embedding model hash-64, and config\.yaml has hash-65"):
        await bases(store, folder, Other()).get("facts").current()
    again = await built(folder, store, Other())
    assert (2, 2) == (again.embedded, (await bases(store, folder, Other()).get("facts").current()).size)


async def test_a_build_that_another_was_faster_than_is_refused(store: Database, folder: Path) -> None:
    class Slow(HashEmbedder):
        async def embed(self, texts: Any, *, bulk: bool = False, **options: Any) -> Any:
            if bulk:
                await built(folder, store)
            return await super().embed(texts)

    with pytest.raises(ConfigError, match="another build of it ended meanwhile: run this one again"):
        await built(folder, store, Slow())


async def test_what_has_gone_is_cleared_away_a_minute_later(store: Database, folder: Path, empty_url: str) -> None:
    await built(folder, store)
    write(folder, "a.csv", "Fire is hot.")
    await built(folder, store)
    tables = tables_of("facts", HashEmbedder().name, HashEmbedder().dimensions)
    await execute(empty_url, f"UPDATE knowledge_facts_{tables} SET gone_at = gone_at - 61")
    await built(folder, store)
    left = [await count(store, f"knowledge_{name}_{tables}") for name in ("facts", "vectors")]
    assert [1, 1] == left


async def count(store: Database, table: str) -> int:
    async with store.transaction() as connection:
        return int((await connection.exec_driver_sql(f"SELECT count(*) FROM {table}")).scalar_one())


async def test_a_store_that_goes_away_is_no_knowledge_base(store: Database, folder: Path) -> None:
    await built(folder, store)
    found = bases(store, folder)
    base = found.get("facts")
    await base.current()
    await store.stop()
    with pytest.raises(ModelUnavailable, match="the knowledge base facts cannot be asked: the store is not available"):
        await base.search(["Fire"])
    await found.look()
    assert (None, 2) == (found.problem, base.size)


def test_a_base_is_called_by_its_path_from_the_configuration(tmp_path: Path) -> None:
    assert ("facts", "a/b", "/elsewhere") == tuple(base_name(one, tmp_path) for one in ("facts", tmp_path / "a" / "b", "/elsewhere"))


async def test_many_facts_are_found_by_the_index(store: Database, folder: Path) -> None:
    embedder = HashEmbedder()
    write(folder, "b.csv", *(f"Item {number} of shelf {number % 37} costs {number * 7} euros." for number in range(3000)))
    facts = [fact for fact in read_folder(folder) if isinstance(fact, Fact)]
    index = await build_in_memory(facts, embedder)
    await built(folder, store)
    queries = [f"What does item {number} cost?" for number in (3, 1234, 2999)]
    base = bases(store, folder).get("facts")
    there, here = index.search(queries, await embedder.embed(queries), 1), await base.search(queries, k=1)
    assert [[hit.fact.id for hit in hits] for hits in there] == [[hit.fact.id for hit in hits] for hits in here]


async def test_behind_a_pooler_that_lends_connections_for_a_transaction(store: Database, folder: Path, empty_url: str) -> None:
    server, _, name = empty_url.rpartition("/")
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(postgres.pooler(server))
        except postgres.NoServer as error:
            pytest.skip(str(error))
        async with opened(f"{address}/{name}") as database:
            await built(folder, database)
            base = bases(database, folder).get("facts")
            found = await asyncio.gather(*(base.search(["Fire is hot."], k=1) for _ in range(20)))
            assert ["Fire is hot."] * 20 == [hit.fact.statement for [[hit]] in found]


@pytest.mark.slow
async def test_a_server_checks_against_the_store_and_takes_a_build_over(folder: Path, empty_url: str) -> None:
    options = config(folder, empty_url)
    await asyncio.to_thread(main, ["knowledge", "build", str(folder), *options])
    app = App(load_settings(options[1], {}))
    async with serving(app) as url, aiohttp.ClientSession() as session:

        async def versions() -> Any:
            async with session.get(f"{url}/ready") as answer:
                return (await answer.json())["runs"].get("knowledge", {})

        async def reaches(other: Any) -> Any:
            async with asyncio.timeout(30):
                while (found := await versions()) in ({}, other):
                    await asyncio.sleep(0.05)
            return found

        first = await reaches({})
        async with session.post(
            f"{url}/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "Is water wet?"}]}
        ) as answer:
            record_id = answer.headers["x-groundwire-id"]
        await app.records_writer.flush()
        record = await Records(app.database).get(record_id)
        assert record is not None
        versions_recorded = [one.detail["version"] for one in read(record.detail, RecordDetail).verdicts if one.stage == "knowledge"]
        assert [first["facts"]] == versions_recorded
        write(folder, "a.csv", "Fire is cold.")
        await asyncio.to_thread(main, ["knowledge", "build", str(folder), *options])
        assert first != await reaches(first)


# ---- the commands ----


def config(folder: Path, url: str) -> list[str]:
    path = write_config(
        folder.parent, "http://127.0.0.1:9/v1", store=url, policy="name: p\ndelivery: tap\nstages: [knowledge: {folder: facts}]\n"
    )
    path.write_text(f"knowledge: {{store: postgres}}\n{path.read_text('utf-8')}", "utf-8")
    return ["--config", str(path)]


@pytest.mark.slow
def test_the_commands_build_and_ask_the_stores_base(folder: Path, empty_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = config(folder, empty_url)
    assert 0 == main(["knowledge", "build", str(folder), *options])
    assert "2 facts, version " in (said := capsys.readouterr().out)
    assert "(2 embedded, 0 removed, 0 left out; pgvector index)" in said
    shutil.rmtree(folder)  # another node need not have it
    assert 0 == main(["knowledge", "check", str(folder), "Water is wet.", *options])
    assert "VALID 1.00" == capsys.readouterr().out.splitlines()[0]
    assert 0 == main(["check", *options])


def test_check_says_that_the_extension_is_missing_and_leaves_the_store_as_it_is(
    folder: Path, empty_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(["check", *config(folder, empty_url)])
    said = capsys.readouterr().err
    assert "knowledge.store: knowledge in PostgreSQL needs the extension vector" in said
    assert "run CREATE EXTENSION vector in its database as a superuser" in said
    tables = asyncio.run(tables_in(empty_url))
    assert [] == tables


async def tables_in(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    finally:
        await connection.close()


def test_check_says_that_it_could_not_look(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["check", *config(folder, "postgresql://nobody@127.0.0.1:1/nowhere")])
    assert "note: knowledge.store:" in (said := capsys.readouterr().out)
    assert "whether it has the extension vector is not known" in said


def test_another_database_than_postgresql_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["check", *config(folder, "sqlite:///store.db")])
    assert "knowledge.store: is postgres, and store.url is another database" in capsys.readouterr().err
