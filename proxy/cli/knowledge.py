"""``groundwire knowledge build FOLDER`` and ``groundwire knowledge check FOLDER CLAIM``; the models are those of config.yaml.

What was left out of a folder goes to standard error, a line each; what was built, or found of the claim, to standard output. A running
server takes a new index over by itself: each worker looks for one at most once a second, when it is asked, and goes by the old one until
the new one is loaded. With ``knowledge: {store: postgres}`` the index is in the store, for all nodes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from proxy.config.settings import Settings
from proxy.errors import ConfigError, ModelUnavailable, StoreUnavailable
from proxy.exchange.judgements import FactVerdict
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.grounding.knowledge.reading import READERS, FileProblem
from proxy.grounding.knowledge.retrieval import BuildReport, base_name
from proxy.models.knowledge.bases import FolderKnowledgeBases
from proxy.models.making import make_embedder, make_verifiers
from proxy.ports import KnowledgeBase
from proxy.store.database import Database
from proxy.store.knowledge import StoredKnowledgeBases
from proxy.store.knowledge_building import build as build_in_store

MAX_SHOWN = 50
"""Problems that are printed one by one."""
_EVERY = 10_000
"""Facts between two lines of progress."""


def build_folder(folder: Path, settings: Settings) -> int:
    """Build or update the index; returns 1 where rows were left out, else 0. Raises `ConfigError`."""
    try:
        built = asyncio.run(_built(folder, base_name(folder.resolve(), settings.folder), settings))
    except (ModelUnavailable, StoreUnavailable, OSError) as error:
        raise ConfigError(str(folder), "", f"the index cannot be built: {error}") from error
    bad = _show_problems(built.problems)
    print(
        f"{folder}: {built.facts} facts, version {built.version} "
        f"({built.embedded} embedded, {built.removed} removed, {bad} left out; {built.kind} index)"
    )
    if not built.facts:
        print(f"{folder}: no facts: put files of {', '.join(READERS)} into it", file=sys.stderr)
    return 1 if bad else 0


async def _built(folder: Path, name: str, settings: Settings) -> BuildReport:
    embedder = make_embedder(settings)
    try:
        if not settings.stored_knowledge:
            from proxy.models.knowledge.building import build
            from proxy.offloop import available_cores

            return await build(folder, embedder, progress=_show_progress, threads=available_cores())
        async with _store(settings) as database:
            return await build_in_store(folder, name, embedder, database, progress=_show_progress)
    finally:
        embedder.stop()


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Database]:
    """The store, opened. Raises `StoreUnavailable`."""
    database = Database(settings.store.url, used_by="knowledge")
    await database.start()
    try:
        if not database.available:
            raise StoreUnavailable(f"the store is not available: {database.problem}")
        yield database
    finally:
        await database.stop()


def check_claim(folder: Path, claim: str, settings: Settings) -> int:
    """Print the verdict; returns 1 where the check could not run, else 0. Raises `ConfigError`."""
    embedder, verifiers, path = make_embedder(settings), make_verifiers(settings), str(folder.resolve())

    async def checked(base: KnowledgeBase) -> FactVerdict:
        return await KnowledgeChecker(base, verifiers.get()).verify(claim)

    async def run() -> FactVerdict:
        try:
            if settings.stored_knowledge:
                async with _store(settings) as database:
                    return await checked(StoredKnowledgeBases(database, embedder, settings.folder).get(path))
            bases = FolderKnowledgeBases(Path(), embedder)
            base = bases.get(str(folder))
            bases.check(lambda: embedder.name)
            try:
                return await checked(base)
            finally:
                await bases.stop()
        finally:
            embedder.stop()
            verifiers.stop()

    try:
        verdict = asyncio.run(run())
    except StoreUnavailable as error:
        raise ConfigError(str(folder), "", str(error)) from error
    print("\n".join(described(verdict)))
    return 1 if verdict.status == "ERROR" else 0


def described(verdict: FactVerdict) -> list[str]:
    """A verdict in lines, those without a value left out."""
    detail = verdict.detail
    lines = (
        ("", f"{verdict.status} {verdict.confidence:.2f}"),
        ("fact", verdict.correct_fact),
        ("source", verdict.source),
        ("of", str(detail.get("fact_source", "")) if detail.get("fact_source") != verdict.source else ""),
        ("instead", str(detail.get("instead", ""))),
        ("reason", verdict.reason),
        ("version", verdict.version),
    )
    return [f"{name}: {value}" if name else value for name, value in lines if value]


def _show_progress(done: int) -> None:
    if done // _EVERY != max(0, done - 1024) // _EVERY:
        print(f"{done:,} facts have their vector", file=sys.stderr)


def _show_problems(problems: Sequence[FileProblem]) -> int:
    """Print them, the bad ones first; returns how many of those there are."""
    shown = sorted(problems, key=lambda problem: ("bad", "duplicate", "note").index(problem.kind))
    for problem in shown[:MAX_SHOWN]:
        print(problem, file=sys.stderr)
    if len(shown) > MAX_SHOWN:
        print(f"… and {len(shown) - MAX_SHOWN:,} more", file=sys.stderr)
    return sum(problem.kind == "bad" for problem in problems)
