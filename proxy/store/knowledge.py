"""Knowledge bases on PostgreSQL with pgvector, for many nodes: implements `proxy.ports.KnowledgeBase` and `KnowledgeBases` over tables.

``groundwire knowledge build`` writes them (`proxy.store.knowledge_building`). A base has one row in ``knowledge_bases``, which says which
version counts: a build switches it in one transaction, and every process looks at it once a second. A fact has the numbers of the versions
between which it holds, so whoever began with a version ends with it. A base's facts and vectors are in tables of its own, by its name, its
embedder and its dimensions: ``halfvec`` under HNSW for vectors, ``tsvector`` under GIN for terms. Terms are ours
(`proxy.grounding.evidence.retrieval.terms`) and not those of a PostgreSQL dictionary, so both kinds of index find the same.

A search is one statement for up to `TEXTS_AT_ONCE` texts. https://github.com/pgvector/pgvector#hnsw
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import TextClause, text

from proxy.errors import ModelUnavailable, StoreUnavailable
from proxy.grounding.knowledge.retrieval import (
    COMMON_SHARE,
    LARGE,
    MAX_TERMS,
    base_name,
    candidates,
    first_that_holds,
    name_of,
    sayings,
    wanted_terms,
)
from proxy.ports import Embedder
from proxy.ports.background import RepeatedTask
from proxy.ports.facts import Fact, FactHit, normalised
from proxy.store.database import Database

log = logging.getLogger("groundwire.knowledge")

LOOK_S = 1.0
"""Between two looks for another version."""
LEAST_PGVECTOR = (0, 7)
"""The first that has ``halfvec``."""
TEXTS_AT_ONCE = 32
"""Of one statement, so that it stays below the store's time for one."""
MAX_TERM_CHARS = 200
"""A lexeme has 2,046 bytes at most."""
NEEDS = (
    "run CREATE EXTENSION vector in its database as a superuser; the server needs pgvector "
    f"{'.'.join(map(str, LEAST_PGVECTOR))} or later for it, Debian's postgresql-NN-pgvector"
)
_THERE = text("SELECT to_regclass('knowledge_bases') IS NOT NULL")
_EXTENSION = text("SELECT installed_version FROM pg_available_extensions WHERE name = 'vector'")
_BASES = text("SELECT name, number, version, embedder, dimensions, facts FROM knowledge_bases WHERE number > 0")
_decode = msgspec.json.Decoder(Fact).decode


class BaseVersion(Struct, frozen=True):
    """A base as a build has left it."""

    name: str
    number: int
    """Of the build, from 1 on."""
    version: str
    embedder: str
    dimensions: int
    facts: int

    @property
    def tables(self) -> str:
        """The end of its tables' names."""
        return tables_of(self.name, self.embedder, self.dimensions)


def tables_of(name: str, embedder: str, dimensions: int) -> str:
    """The end of the names of a base's tables, for vectors of this embedder."""
    return hashlib.blake2b(f"{name}\0{embedder}\0{dimensions}".encode("utf-8", "replace"), digest_size=8).hexdigest()


def lexeme(term: str) -> str:
    """A term as ``tsvector`` has it."""
    return term[:MAX_TERM_CHARS]


async def extension_problem(database: Database) -> str:
    """Why the store cannot hold knowledge; "" where it can. Raises `StoreUnavailable`."""
    found = [row[0] for row in await database.read(_EXTENSION, {})]
    if not found or found[0] is None:
        return f"knowledge in PostgreSQL needs the extension vector, which the store does not have: {NEEDS}"
    if tuple(int(part) for part in str(found[0]).split(".")[:2]) < LEAST_PGVECTOR:
        return f"the store's extension vector is of version {found[0]}: update pgvector, and run ALTER EXTENSION vector UPDATE"
    return ""


async def base_versions(database: Database) -> Mapping[str, BaseVersion]:
    """All bases of the store. Raises `StoreUnavailable`."""
    if not (await database.read(_THERE, {}))[0][0]:
        return {}
    return {row[0]: BaseVersion(*row) for row in await database.read(_BASES, {})}


@lru_cache(maxsize=64)
def _search(tables: str, dimensions: int) -> TextClause:
    facts, shown = f"knowledge_facts_{tables}", "f.since <= :number AND (f.until IS NULL OR f.until > :number)"
    return text(f"""
WITH setting AS MATERIALIZED (SELECT set_config('hnsw.ef_search', CAST(:ef_search AS text), true) AS ef_search),
asked AS MATERIALIZED (
  SELECT n, CAST((CAST(:vectors AS real[]))[(n - 1) * {dimensions} + 1 : n * {dimensions}] AS vector) AS vector
  FROM setting, generate_series(1, CAST(:texts AS int)) AS n WHERE ef_search IS NOT NULL),
near AS (
  SELECT asked.n, found.row FROM asked CROSS JOIN LATERAL (
    SELECT f.row FROM (
      SELECT v.key, v.vector <#> CAST(asked.vector AS halfvec({dimensions})) AS distance FROM knowledge_vectors_{tables} v
      ORDER BY v.vector <#> CAST(asked.vector AS halfvec({dimensions})) LIMIT 2 * CAST(:most AS int)
    ) v JOIN {facts} f ON f.key = v.key WHERE {shown} ORDER BY v.distance, f.file, f.row LIMIT :most
  ) found),
weighed AS MATERIALIZED (
  SELECT t.n, t.term, coalesce(k.facts, 0) AS facts,
    ln(1 + (:size - coalesce(k.facts, 0) + 0.5) / (coalesce(k.facts, 0) + 0.5)) AS weight,
    row_number() OVER (PARTITION BY t.n ORDER BY coalesce(k.facts, 0) = 0, k.facts, k.term) AS place
  FROM unnest(CAST(:numbers AS int[]), CAST(:terms AS text[])) AS t(n, term) LEFT JOIN knowledge_terms_{tables} k ON k.term = t.term),
chosen AS MATERIALIZED (
  SELECT n, weight, CAST('''' || replace(replace(term, '\\', '\\\\'), '''', '''''') || '''' AS tsquery) AS lexeme FROM weighed
  WHERE facts > 0 AND place <= {MAX_TERMS} AND (:size < {LARGE} OR facts <= {COMMON_SHARE} * :size OR place = 1)),
sharing AS (
  SELECT c.n, f.row, f.file, round(CAST(sum(c.weight) AS numeric), 6) AS weight
  FROM chosen c JOIN {facts} f ON f.words @@ c.lexeme WHERE {shown} GROUP BY c.n, f.row, f.file),
best AS (SELECT n, row, row_number() OVER (PARTITION BY n ORDER BY weight DESC, file, row) AS place FROM sharing),
scored AS (
  SELECT c.n, f.file, f.row, f.fact, round(CAST((
      least(1, greatest(0, -(CAST(v.vector AS vector) <#> asked.vector))) + least(1, coalesce(share.weight / nullif(total.weight, 0), 0))
    ) / 2 AS numeric), 6) AS score
  FROM (SELECT n, row FROM near UNION SELECT n, row FROM best WHERE place <= :most) c
  JOIN asked ON asked.n = c.n JOIN {facts} f ON f.row = c.row JOIN knowledge_vectors_{tables} v ON v.key = f.key
  CROSS JOIN LATERAL (SELECT sum(weight) AS weight FROM chosen WHERE chosen.n = c.n AND f.words @@ chosen.lexeme) share
  CROSS JOIN LATERAL (SELECT sum(weight) AS weight FROM weighed WHERE weighed.n = c.n) total)
SELECT n, fact, score FROM (SELECT *, row_number() OVER (PARTITION BY n ORDER BY score DESC, file, row) AS place FROM scored) ranked
WHERE place <= :k ORDER BY n, place""")  # noqa: S608 - a hash and numbers of our own


@lru_cache(maxsize=64)
def _saying(tables: str) -> TextClause:
    return text(
        f"SELECT fact FROM knowledge_facts_{tables} f WHERE said && CAST(:names AS bigint[]) "  # noqa: S608 - as above
        "AND since <= :number AND (until IS NULL OR until > :number) ORDER BY file, row"
    )


class StoredSnapshot:
    """Implements `proxy.ports.KnowledgeBase` for one version."""

    def __init__(self, database: Database, embedder: Embedder, about: BaseVersion) -> None:
        self._database, self._embedder, self.about = database, embedder, about

    @property
    def version(self) -> str:
        """Implements `proxy.ports.KnowledgeBase`."""
        return self.about.version

    @property
    def size(self) -> int:
        """Implements `proxy.ports.KnowledgeBase`."""
        return self.about.facts

    async def current(self) -> StoredSnapshot:
        """Itself."""
        return self

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """Implements `proxy.ports.KnowledgeBase`."""
        if not texts or not self.size or k < 1:
            return [[] for _ in texts]
        vectors, found = await self._embedder.embed(texts), list[list[FactHit]]()
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            end = start + TEXTS_AT_ONCE
            found += await self._search(texts[start:end], vectors[start:end].ravel().tolist(), k)
        return found

    async def _search(self, texts: Sequence[str], vectors: Sequence[float], k: int) -> list[list[FactHit]]:
        pairs = [(n, lexeme(term)) for n, given in enumerate(texts, 1) for term in wanted_terms(given)]
        values = {
            "texts": len(texts),
            "vectors": vectors,
            "numbers": [n for n, _ in pairs],
            "terms": [term for _, term in pairs],
            "most": (most := candidates(k)),
            "ef_search": str(min(1000, max(100, 4 * most))),
            "size": float(self.size),
            "number": self.about.number,
            "k": k,
        }
        found: list[list[FactHit]] = [[] for _ in texts]
        for n, fact, score in await self._read(_search(self.about.tables, self.about.dimensions), values):
            found[n - 1].append(FactHit(_decode(fact), float(score)))
        return found

    async def exact(self, texts: Sequence[str]) -> list[Fact | None]:
        """Implements `proxy.ports.KnowledgeBase`."""
        wanted = [normalised(one) for one in texts]
        names = sorted({name_of(one) for one in wanted if one})
        if not names or not self.size:
            return [None for _ in texts]
        rows = await self._read(_saying(self.about.tables), {"names": names, "number": self.about.number})
        said: dict[str, list[Fact]] = {}
        for fact in (_decode(row[0]) for row in rows):
            for saying in dict.fromkeys(sayings(fact)):
                said.setdefault(saying, []).append(fact)
        now = time.time()
        return [first_that_holds(said.get(one, []), now) if one else None for one in wanted]

    async def _read(self, query: TextClause, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        try:
            return await self._database.read(query, values)
        except StoreUnavailable as error:
            raise ModelUnavailable(f"the knowledge base {self.about.name} cannot be asked: {error}") from error


class StoredKnowledge:
    """Implements `proxy.ports.KnowledgeBase` for one base, in the version that counts."""

    def __init__(self, bases: StoredKnowledgeBases, name: str) -> None:
        self._bases, self._name = bases, name

    @property
    def version(self) -> str:
        """Implements `proxy.ports.KnowledgeBase`."""
        return self._bases.snapshot(self._name).version

    @property
    def size(self) -> int:
        """Implements `proxy.ports.KnowledgeBase`."""
        return self._bases.snapshot(self._name).size

    async def current(self) -> StoredSnapshot:
        """Implements `proxy.ports.KnowledgeBase`."""
        await self._bases.first_look()
        return self._bases.snapshot(self._name)

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """Implements `proxy.ports.KnowledgeBase`."""
        return await (await self.current()).search(texts, k=k)

    async def exact(self, texts: Sequence[str]) -> list[Fact | None]:
        """Implements `proxy.ports.KnowledgeBase`."""
        return await (await self.current()).exact(texts)


class StoredKnowledgeBases:
    """Implements `proxy.ports.KnowledgeBases`. Belongs to one event loop."""

    def __init__(self, database: Database, embedder: Embedder, folder: str | Path) -> None:
        """`folder` is where relative names start."""
        self._database, self._embedder, self._folder = database, embedder, folder
        self._bases: dict[str, StoredKnowledge] = {}
        self._snapshots: dict[str, StoredSnapshot] = {}
        self._problems: dict[str, str] = {}
        self._looks = RepeatedTask(self.look, LOOK_S, name="knowledge", problem="knowledge could not be looked up", log=log)
        self._looked = asyncio.Lock()

    def __len__(self) -> int:
        """How many bases were asked for."""
        return len(self._bases)

    def get(self, folder: str) -> StoredKnowledge:
        """Implements `proxy.ports.KnowledgeBases`. Nothing is asked yet; the folder need not be on this machine."""
        return self._bases.setdefault(name := base_name(folder, self._folder), StoredKnowledge(self, name))

    def snapshot(self, name: str) -> StoredSnapshot:
        """The base as the last look found it. Raises `ModelUnavailable`."""
        if found := self._snapshots.get(name):
            return found
        problem = self._problems.get(name) or self._database.problem or "still loading"
        raise ModelUnavailable(f"the knowledge base {name} cannot be asked: {problem}")

    @property
    def problem(self) -> str | None:
        """Why one of them cannot be asked, for ``/ready``. A store that is away is said beside it: other nodes have no other."""
        return next((f"{name}: {self._problems[name]}" for name in self._bases if self._problems.get(name)), None)

    @property
    def versions(self) -> Mapping[str, str]:
        """Of each base, the version that it is asked in."""
        return {name: found.version for name, found in sorted(self._snapshots.items())}

    async def load(self) -> None:
        """Look now, and then again and again."""
        await self.look()
        if self._bases:
            self._looks.start(LOOK_S)

    async def stop(self) -> None:
        """No further looks."""
        await self._looks.stop()

    async def first_look(self) -> None:
        """Return once there was one: who asks before `load` has looked waits for it."""
        if len(self._snapshots) < len(self._bases):
            async with self._looked:
                if not self._snapshots and not self._problems:
                    await self.look()

    async def look(self) -> None:
        """Take over the versions that count now. What cannot be looked up stays as it is."""
        try:
            found, extension = await base_versions(self._database), ""
            if not found:
                extension = await extension_problem(self._database)
            if any(self._counting(name) != one for name, one in found.items() if name in self._bases):
                await self._embedder.embed([""])  # its name is known once it is loaded
        except (StoreUnavailable, ModelUnavailable) as error:
            log.debug("knowledge could not be looked up: %s", error)
            return
        for name in self._bases:
            self._take_over(name, found.get(name), extension)

    def _counting(self, name: str) -> BaseVersion | None:
        found = self._snapshots.get(name)
        return found.about if found is not None else None

    def _take_over(self, name: str, found: BaseVersion | None, extension: str) -> None:
        before, problem = self._counting(name), ""
        if found is None:
            problem = extension or f"is not in the store: run groundwire knowledge build {name}"
        elif found.embedder != self._embedder.name:
            problem = (
                f"was built with the embedding model {found.embedder}, and config.yaml has {self._embedder.name}: "
                f"run groundwire knowledge build {name}"
            )
        if problem and problem != self._problems.get(name):
            rest = "the facts before are used on" if before is not None else "nothing can be checked against it"
            log.error("the knowledge base %s: %s; %s", name, problem, rest)
        self._problems[name] = problem
        if found is None or problem or before == found:
            return
        self._snapshots[name] = StoredSnapshot(self._database, self._embedder, found)
        log.info("knowledge base %s: %d facts, version %s", name, found.facts, found.version)
