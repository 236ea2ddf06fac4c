"""A folder of facts -> its base on PostgreSQL (``groundwire knowledge build`` with ``knowledge: {store: postgres}``).

A file whose bytes are those of the last build is not read again, and of the others only facts that differ are written: one that is new
holds from this build's number on, one that has gone until it. Vectors go first, in transactions of their own: a build that is broken off
goes on where it was. What counts is switched in one transaction at the end; what held before the last version stays for a minute longer,
for whoever asks in it. Two builds of one base at a time: the second is refused at its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from sqlalchemy import text

from proxy.errors import ConfigError, StoreUnavailable
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.knowledge.reading import FactInFile, FileProblem, files_of, read_file, unread_files
from proxy.grounding.knowledge.retrieval import BLOCK, BuildReport, key_of, name_of, sayings
from proxy.ports import Embedder
from proxy.ports.facts import Fact
from proxy.store.database import Database, StoreRejected, fetch
from proxy.store.drivers import AsyncConnection
from proxy.store.knowledge import NEEDS, extension_problem, lexeme, tables_of
from proxy.store.tables import clean

_BUILD_S = 600.0
"""For the transaction that writes facts and makes the indexes."""
_LEFT_S = 60.0
"""So long what has gone is left for those who ask in a version before."""
_LOCK = 0x67776B6E6F77
_TABLES = (
    "CREATE TABLE IF NOT EXISTS knowledge_bases (name text PRIMARY KEY, number bigint NOT NULL, version text NOT NULL,"
    " embedder text NOT NULL, dimensions int NOT NULL, facts bigint NOT NULL, built_at float8 NOT NULL)",
    "CREATE TABLE IF NOT EXISTS knowledge_files (tables text, path text, digest bytea NOT NULL, ids bytea NOT NULL,"
    " PRIMARY KEY (tables, path))",
)
_OF_BASE = (
    "CREATE TABLE IF NOT EXISTS knowledge_vectors_{0} (key bytea PRIMARY KEY, vector halfvec({1}) NOT NULL)",
    'CREATE TABLE IF NOT EXISTS knowledge_terms_{0} (term text COLLATE "C" PRIMARY KEY, facts bigint NOT NULL)',
    "CREATE TABLE IF NOT EXISTS knowledge_facts_{0} (row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL,"
    ' file text COLLATE "C" NOT NULL, hash bigint NOT NULL, since bigint NOT NULL, until bigint, gone_at float8, said bigint[] NOT NULL,'
    " key bytea NOT NULL, words tsvector NOT NULL, fact bytea NOT NULL)",
)
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS knowledge_vectors_{0}_near ON knowledge_vectors_{0} USING hnsw (vector halfvec_ip_ops)",
    "CREATE INDEX IF NOT EXISTS knowledge_facts_{0}_words ON knowledge_facts_{0} USING gin (words)",
    "CREATE INDEX IF NOT EXISTS knowledge_facts_{0}_said ON knowledge_facts_{0} USING gin (said)",
    "CREATE INDEX IF NOT EXISTS knowledge_facts_{0}_key ON knowledge_facts_{0} (key)",
)
"""Made at the end of the first build, as that is many times faster than row by row."""
_COUNT_TERMS = (
    "INSERT INTO knowledge_terms_{0} SELECT w.lexeme, sum(CASE WHEN f.since = :next THEN 1 ELSE -1 END)"
    " FROM knowledge_facts_{0} f, unnest(f.words) AS w WHERE f.since = :next OR f.until = :next GROUP BY w.lexeme"
    " ON CONFLICT (term) DO UPDATE SET facts = knowledge_terms_{0}.facts + excluded.facts"
)
_CLEAR = (
    "DELETE FROM knowledge_facts_{0} WHERE gone_at < extract(epoch FROM clock_timestamp()) - {1}",
    "DELETE FROM knowledge_vectors_{0} v WHERE NOT EXISTS (SELECT FROM knowledge_facts_{0} f WHERE f.key = v.key)",
    "DELETE FROM knowledge_terms_{0} WHERE facts <= 0",
)


class _File(Struct):
    """One that the folder has."""

    digest: bytes
    ids: list[bytes]
    """Of its facts, in order, also of those that an earlier file has."""
    facts: dict[bytes, FactInFile] = field(default_factory=dict)
    """Of one that was read."""


class _Stored(Struct):
    """A fact that holds in the version that counts."""

    row: int
    file: str
    hash: int


class _Build:
    """Of one base."""

    def __init__(self, database: Database, embedder: Embedder, name: str, progress: Any) -> None:
        self.database, self.embedder, self.name, self.progress = database, embedder, name, progress
        self.tables = tables_of(name, embedder.name, embedder.dimensions)
        self.number = 0
        """Of the version that counts."""
        self.embedded = 0

    async def prepare(self) -> Mapping[str, tuple[bytes, list[bytes]]]:
        """Make the tables, where they are missing; the digests and ids of the files of the version that counts."""
        async with self.database.writing(timeout_s=_BUILD_S) as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            for statement in _TABLES:
                await connection.exec_driver_sql(statement)
            for statement in _OF_BASE:
                await connection.exec_driver_sql(statement.format(self.tables, self.embedder.dimensions))
            empty = text("INSERT INTO knowledge_bases VALUES (:name, 0, '', '', 0, 0, 0) ON CONFLICT DO NOTHING")
            await connection.execute(empty, {"name": self.name})
            number = text("SELECT number FROM knowledge_bases WHERE name = :name")
            self.number = int(await connection.scalar(number, {"name": self.name}) or 0)
            query = text("SELECT path, digest, ids FROM knowledge_files WHERE tables = :tables")
            rows = await fetch(connection, query, {"tables": self.tables})
        return {path: (digest, [ids[at : at + 16] for at in range(0, len(ids), 16)]) for path, digest, ids in rows}

    async def stored(self) -> dict[bytes, _Stored]:
        """The facts that hold, by id."""
        query = text(f"SELECT id, row, file, hash FROM knowledge_facts_{self.tables} WHERE until IS NULL")  # noqa: S608 - a hash
        async with self.database.transaction(timeout_s=_BUILD_S) as connection:
            rows = await fetch(connection, query, {})
        return {_packed(name): _Stored(row, file, hash_) for name, row, file, hash_ in rows}

    async def embed(self, facts: Sequence[tuple[str, Fact]]) -> None:
        """See that there is a vector of each."""
        there = text(f"SELECT key FROM knowledge_vectors_{self.tables} WHERE key = ANY(CAST(:keys AS bytea[]))")  # noqa: S608 - a hash
        insert = f"INSERT INTO knowledge_vectors_{self.tables} VALUES ($1, CAST(CAST($2 AS real[]) AS halfvec)) ON CONFLICT DO NOTHING"  # noqa: S608
        for start in range(0, len(facts), BLOCK):
            texts = {key_of(fact): fact.text for _, fact in facts[start : start + BLOCK]}
            known = {row[0] for row in await self.database.read(there, {"keys": list(texts)})}
            missing = {key: one for key, one in texts.items() if key not in known}
            if missing:
                vectors = await self.embedder.embed([*missing.values()], bulk=True)
                rows = [(key, [float(x) for x in vector]) for key, vector in zip(missing, vectors, strict=True)]
                async with self.database.writing(timeout_s=_BUILD_S) as connection:
                    await connection.exec_driver_sql(insert, rows)
            self.embedded += len(missing)
            if self.progress is not None:
                self.progress(min(start + BLOCK, len(facts)))

    async def switch(
        self, new: Sequence[tuple[str, Fact]], gone: Sequence[int], files: Mapping[str, _File], facts: int, version: str
    ) -> None:
        """All of it in one transaction. Raises `ConfigError` where another build was first."""
        async with self.database.writing(timeout_s=_BUILD_S) as connection:
            values = {"name": self.name, "before": self.number, "next": self.number + 1, "version": version, "facts": facts}
            values |= {"embedder": self.embedder.name, "dimensions": self.embedder.dimensions}
            count = text(
                "UPDATE knowledge_bases SET number = :next, version = :version, embedder = :embedder, dimensions = :dimensions,"
                " facts = :facts, built_at = extract(epoch FROM clock_timestamp()) WHERE name = :name AND number = :before"
            )
            if (await connection.execute(count, values)).rowcount != 1:
                raise ConfigError(self.name, "", "another build of it ended meanwhile: run this one again")
            await self._write(connection, new, gone)
            await connection.execute(text("DELETE FROM knowledge_files WHERE tables = :tables"), {"tables": self.tables})
            rows = [(self.tables, clean(path), file.digest, b"".join(file.ids)) for path, file in files.items()]
            if rows:
                await connection.exec_driver_sql("INSERT INTO knowledge_files VALUES ($1, $2, $3, $4)", rows)
            for statement in (*_INDEXES, *_CLEAR):
                await connection.exec_driver_sql(statement.format(self.tables, _LEFT_S))

    async def _write(self, connection: AsyncConnection, new: Sequence[tuple[str, Fact]], gone: Sequence[int]) -> None:
        left = f"UPDATE knowledge_facts_{self.tables} SET until = :next, gone_at = extract(epoch FROM clock_timestamp())"  # noqa: S608 - a hash
        values = {"rows": list(gone), "next": self.number + 1}
        await connection.execute(text(f"{left} WHERE row = ANY(CAST(:rows AS bigint[]))"), values)
        insert = (
            f"INSERT INTO knowledge_facts_{self.tables} (id, file, hash, since, said, key, words, fact)"  # noqa: S608 - a hash
            " VALUES ($1, $2, $3, $4, $5, $6, array_to_tsvector($7), $8)"
        )
        for start in range(0, len(new), BLOCK):
            rows = [self._row(path, fact) for path, fact in new[start : start + BLOCK]]
            await connection.exec_driver_sql(insert, rows)
        await connection.execute(text(_COUNT_TERMS.format(self.tables)), {"next": self.number + 1})

    def _row(self, path: str, fact: Fact) -> tuple[Any, ...]:
        words = sorted({lexeme(term) for term in terms(fact.text)})
        said = [name_of(one) for one in dict.fromkeys(sayings(fact))]
        return fact.id, clean(path), _hash(fact), self.number + 1, said, key_of(fact), words, msgspec.json.encode(fact)


async def build(folder: Path, name: str, embedder: Embedder, database: Database, *, progress: Any = None) -> BuildReport:
    """Bring the base `name` to what the folder has. Raises `ConfigError`, `StoreUnavailable` and `ModelUnavailable`."""
    paths = files_of(folder)
    await embedder.embed([""])  # its name and dimensions are known once it is loaded
    await _have_extension(database)
    work, problems = _Build(database, embedder, name, progress), list[FileProblem]()
    before = await work.prepare()
    files = {path: _file(folder, path, before.get(clean(path)), problems) for path in paths}
    problems += unread_files(folder)
    places = _places(files, problems)
    stored = await work.stored()
    gone, new = list[int](), list[tuple[str, Fact]]()
    for id_, path in places.items():
        there, placed = stored.pop(id_, None), files[path].facts.get(id_)
        if there is not None and there.file == clean(path) and (placed is None or _hash(placed.fact) == there.hash):
            continue
        if there is not None:
            gone.append(there.row)
        if placed is None:  # an earlier file said it, too, and does so no more
            files[path] = _read(folder, path, files[path].digest, [])
            placed = files[path].facts[id_]
        new.append((path, placed.fact))
    gone += [there.row for there in stored.values()]
    await work.embed(new)
    version = await _version(work, gone, new)
    try:
        await work.switch(new, gone, files, len(places), version)
    except StoreRejected as error:
        raise ConfigError(str(folder), "", f"the store refuses its facts: {error}") from error
    return BuildReport(version, len(places), work.embedded, len(gone), "pgvector", tuple(problems))


async def _have_extension(database: Database) -> None:
    """Raises `ConfigError` with what to do."""
    if not await extension_problem(database):
        return
    try:
        async with database.writing() as connection:
            await connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
    except StoreUnavailable as error:
        raise ConfigError("config.yaml", "knowledge.store", f"the store cannot have the extension vector ({error}): {NEEDS}") from error
    if problem := await extension_problem(database):
        raise ConfigError("config.yaml", "knowledge.store", problem)


async def _version(work: _Build, gone: Sequence[int], new: Sequence[tuple[str, Fact]]) -> str:
    """A sum of the hashes of all facts, and of the embedder's name: what one change does to it needs no look at the others."""
    query = text(
        f"SELECT coalesce(sum(hash), 0) FROM knowledge_facts_{work.tables} "  # noqa: S608 - a hash
        "WHERE until IS NULL AND NOT row = ANY(CAST(:gone AS bigint[]))"
    )
    async with work.database.transaction(timeout_s=_BUILD_S) as connection:
        kept = int(await connection.scalar(query, {"gone": list(gone)}) or 0)
    total = kept + sum(_hash(fact) for _, fact in new)
    return hashlib.blake2b(f"{work.embedder.name}\0{total}".encode(), digest_size=8).hexdigest()


def _places(files: Mapping[str, _File], problems: list[FileProblem]) -> dict[bytes, str]:
    """In which file each fact is taken from: the first that says it."""
    places: dict[bytes, str] = {}
    for path, file in files.items():
        for id_ in file.ids:
            first = places.setdefault(id_, path)
            if first != path and (placed := file.facts.get(id_)) is not None:
                problems.append(FileProblem(path, placed.line, f"says the same as {first}", "duplicate"))
    return places


def _file(folder: Path, path: str, before: tuple[bytes, list[bytes]] | None, problems: list[FileProblem]) -> _File:
    try:
        with (folder / path).open("rb") as opened:
            digest = hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError as error:
        problems.append(FileProblem(path, 0, f"cannot be read: {error.strerror or error}"))
        return _File(b"", [])
    if before is not None and before[0] == digest:
        return _File(digest, before[1])
    return _read(folder, path, digest, problems)


def _read(folder: Path, path: str, digest: bytes, problems: list[FileProblem]) -> _File:
    """What stands in a file. One that something is wrong with has no digest: the next build says so again."""
    file, wrong = _File(digest, []), False
    for found in read_file(folder, path):
        if isinstance(found, FileProblem):
            problems.append(found)
            wrong = wrong or found.kind == "bad"
        elif (first := file.facts.setdefault(id_ := _packed(found.fact.id), found)) is found:
            file.ids.append(id_)
        else:
            problems.append(FileProblem(path, found.line, f"says the same as {path}:{first.line}", "duplicate"))
    if wrong:
        file.digest = b""
    return file


def _packed(name: str) -> bytes:
    """The 16 bytes of a fact's id."""
    return bytes.fromhex(name[3:])


def _hash(fact: Fact) -> int:
    """Of what is stored of it."""
    return int.from_bytes(hashlib.blake2b(msgspec.json.encode(fact), digest_size=8).digest(), "little", signed=True)
