"""The knowledge bases of a server: implements `proxy.ports.KnowledgeBase` and `KnowledgeBases` over folders of facts.

A folder with a built index is opened (`proxy.models.knowledge.index`); a small one without is read and embedded when it is first used, or
at start. Both are looked after: when the index is built again, or the files of a small folder change, the new facts are loaded in the
background, and who asks meanwhile gets the old ones. What cannot be used any more because another embedder built it, or because a large
folder has no index, is refused at start with the command to run (`FolderKnowledgeBases.check`).

numpy and FAISS are imported with the first folder that is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.errors import ConfigError, GroundwireError, ModelUnavailable
from proxy.grounding.knowledge.retrieval import base_name
from proxy.ports import Embedder
from proxy.ports.facts import Fact, FactHit

if TYPE_CHECKING:
    from proxy.grounding.knowledge.reading import FileProblem
    from proxy.models.knowledge.index import KnowledgeIndex

log = logging.getLogger("groundwire.knowledge")

MAX_UNBUILT_FACTS = 2000
"""More are not embedded at start: about 2 s of the built-in model."""
FOLDER, FILE = ".index", "facts.sqlite"
"""Where a folder's index is, and what says that there is one."""
CHECK_S = 1.0
"""How often a folder is looked at for a change."""
LARGE_SEARCH = 20_000
"""Texts times facts from which a search leaves the event loop: about 5 ms."""
_MAX_LOGGED = 20
Signature = tuple[object, ...]


class KnowledgeSnapshot:
    """Implements `proxy.ports.KnowledgeBase` for facts that do not change any more."""

    def __init__(self, index: KnowledgeIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder
        self.version, self.size = index.version, len(index)

    async def current(self) -> KnowledgeSnapshot:
        """Itself."""
        return self

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """Implements `proxy.ports.KnowledgeBase`."""
        if not texts or not self.size:
            return [[] for _ in texts]
        vectors = await self._embedder.embed(texts)
        if len(texts) * self.size > LARGE_SEARCH:
            return await asyncio.to_thread(self._index.search, texts, vectors, k)
        return self._index.search(texts, vectors, k)

    async def exact(self, texts: Sequence[str]) -> list[Fact | None]:
        """Implements `proxy.ports.KnowledgeBase`."""
        return [self._index.exact(text) for text in texts]


class FolderKnowledge:
    """Implements `proxy.ports.KnowledgeBase` for a folder. Belongs to one event loop."""

    def __init__(self, folder: Path, embedder: Embedder, *, check_s: float = CHECK_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self._embedder, self._check_s, self._clock = embedder, check_s, clock
        self._snapshot: KnowledgeSnapshot | None = None
        self._signature: Signature | None = None
        """Of what `_snapshot` was made of, or of what failed last."""
        self._looked_at = -check_s
        self._loading: asyncio.Task[None] | None = None
        self.problem: str | None = "still loading"
        """Why it cannot be asked, or has not taken over a change, for ``/ready``."""

    @property
    def version(self) -> str:
        """Implements `proxy.ports.KnowledgeBase`."""
        return self._ready.version

    @property
    def size(self) -> int:
        """Implements `proxy.ports.KnowledgeBase`."""
        return self._ready.size

    @property
    def is_loaded(self) -> bool:
        """Whether it can be asked at once."""
        return self._snapshot is not None

    async def exact(self, texts: Sequence[str]) -> list[Fact | None]:
        """Implements `proxy.ports.KnowledgeBase`."""
        return await (await self.current()).exact(texts)

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """Implements `proxy.ports.KnowledgeBase`."""
        return await (await self.current()).search(texts, k=k)

    async def current(self) -> KnowledgeSnapshot:
        """Implements `proxy.ports.KnowledgeBase`. Waits only for the first load; a change is loaded while the old facts are used."""
        if self._loading is None or self._loading.done():
            self._look()
        if self._snapshot is None and self._loading is not None:
            await asyncio.shield(self._loading)
        return self._ready

    async def settled(self) -> KnowledgeSnapshot:
        """As `current`, after what is being loaded."""
        await self.current()
        if self._loading is not None:
            await asyncio.shield(self._loading)
        return self._ready

    async def stop(self) -> None:
        """End what is being loaded."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    @property
    def _ready(self) -> KnowledgeSnapshot:
        if self._snapshot is None:
            raise ModelUnavailable(f"the knowledge base {self.folder} is not loaded: {self.problem}")
        return self._snapshot

    def _look(self) -> None:
        """Begin to load what has changed. What failed is tried again when it changes, and as long as there is nothing else."""
        if self._snapshot is not None and self._clock() - self._looked_at < self._check_s:
            return
        self._looked_at = self._clock()
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            signature = await asyncio.to_thread(signature_of, self.folder)
            if signature == self._signature and self._snapshot is not None:
                return
            self._signature = signature
            await self._embedder.embed([""])  # its name is known once it is loaded
            index = await asyncio.to_thread(open_built, self.folder, self._embedder.name)
            if index is None:
                index = await self._unbuilt()
        except (GroundwireError, OSError, ValueError) as error:
            self.problem = str(error)
            kept = "the facts before are used on" if self._snapshot is not None else "nothing can be checked against it"
            log.error("the knowledge base %s cannot be loaded, %s: %s", self.folder, kept, error)
            return
        self._snapshot, self.problem = KnowledgeSnapshot(index, self._embedder), None
        log.info("knowledge base %s: %d facts, version %s", self.folder, len(index), index.version)

    async def _unbuilt(self) -> KnowledgeIndex:
        from proxy.models.knowledge.building import build_in_memory

        facts = await asyncio.to_thread(small_folder, self.folder)
        return await build_in_memory(facts, self._embedder)


class FolderKnowledgeBases:
    """Implements `proxy.ports.KnowledgeBases`."""

    def __init__(self, folder: Path, embedder: Embedder, **options: float) -> None:
        """`folder` is where relative ones start; `options` are those of `FolderKnowledge`."""
        self._folder, self._embedder, self._options = folder, embedder, options
        self._bases: dict[Path, FolderKnowledge] = {}

    def get(self, folder: str) -> FolderKnowledge:
        """Implements `proxy.ports.KnowledgeBases`. Nothing is loaded yet."""
        path = (self._folder / folder).resolve()
        if path not in self._bases:
            if not path.is_dir():
                raise ConfigError(str(path), "", "no such folder of facts")
            self._bases[path] = FolderKnowledge(path, self._embedder, **self._options)  # type: ignore[arg-type]
        return self._bases[path]

    @property
    def problem(self) -> str | None:
        """Why one of them cannot be asked, for ``/ready``."""
        return next((f"{path}: {base.problem}" for path, base in self._bases.items() if base.problem), None)

    @property
    def versions(self) -> Mapping[str, str]:
        """Of each base that is loaded, the version that it is asked in."""
        return {base_name(path, self._folder): base.version for path, base in sorted(self._bases.items()) if base.is_loaded}

    def check(self, embedder: Callable[[], str]) -> None:
        """Whether each can be used by the embedder of that name. Raises `ConfigError` with the command to run."""
        for folder in self._bases:
            check_folder(folder, embedder)

    def __len__(self) -> int:
        """How many bases were asked for."""
        return len(self._bases)

    async def load(self) -> None:
        """Load them all now; a failure is logged, and shown by `problem`."""
        await asyncio.gather(*(base.settled() for base in self._bases.values()), return_exceptions=True)

    async def stop(self) -> None:
        """End what is being loaded."""
        await asyncio.gather(*(base.stop() for base in self._bases.values()))


def check_folder(folder: Path, embedder: Callable[[], str]) -> None:
    """Whether a folder can be used at all. Raises `ConfigError`."""
    from proxy.models.knowledge.index import connected, read_manifest

    file = connected(folder)
    if file is None:
        small_folder(folder)
        return
    with closing(file):
        _check_embedder(folder, read_manifest(file, folder).embedder, embedder())


def small_folder(folder: Path) -> list[Fact]:
    """The facts of a folder without an index. Raises `ConfigError` where they are too many."""
    from proxy.models.knowledge.building import facts_in

    problems: list[FileProblem] = []
    facts = list(islice(facts_in(folder, problems), MAX_UNBUILT_FACTS + 1))
    if len(facts) > MAX_UNBUILT_FACTS:
        problem = f"has more than {MAX_UNBUILT_FACTS:,} facts and no index: {build_command(folder)}"
        raise ConfigError(str(folder), "", problem)
    for found in [problem for problem in problems if problem.kind == "bad"][:_MAX_LOGGED]:
        log.warning("%s: left out: %s", folder, found)
    return facts


def open_built(folder: Path, embedder: str) -> KnowledgeIndex | None:
    """The folder's built index, None where there is none. Raises `ConfigError`, for another embedder's, too."""
    from proxy.grounding.knowledge.reading import files_of
    from proxy.models.knowledge.index import open_index

    index = open_index(folder)
    if index is None:
        return None
    _check_embedder(folder, index.manifest.embedder, embedder)
    if dict(index.manifest.files) != stamps_of(folder, files_of(folder)):
        log.warning("%s: files have changed since the index was built: %s", folder, build_command(folder))
    return index


def build_command(folder: Path) -> str:
    """What to run."""
    return f"run groundwire knowledge build {folder}"


def _check_embedder(folder: Path, built_with: str, embedder: str) -> None:
    if built_with != embedder:
        problem = f"was built with the embedding model {built_with}, and config.yaml has {embedder}: {build_command(folder)}"
        raise ConfigError(str(folder), "", problem)


def stamps_of(folder: Path, files: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Size and time of change (nanoseconds) of each file; one that has gone meanwhile is left out."""
    found = {}
    for path in files:
        with suppress(OSError):
            status = (folder / path).stat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found


def signature_of(folder: Path) -> Signature:
    """Differs when there is something else to load: another build, or, where there was none, other files."""
    from proxy.grounding.knowledge.reading import files_of

    with suppress(OSError):
        status = (folder / FOLDER / FILE).stat()
        return ("built", status.st_ino, status.st_mtime_ns)
    return ("files", *stamps_of(folder, files_of(folder)).items())
