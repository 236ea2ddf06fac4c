"""A model's name -> what is known of it (context window, longest answer, encoding, prices); text -> tokens, without network, in bounded
time, with every text counted once. Below `proxy.models.tokens.counter`, which asks here for every request.

Models: ``models:`` of config.yaml wins; the rest is litellm's price list, of which `BUNDLED` has what is used here. Which encoding a
model has follows OpenAI's own table in ``tiktoken.model``, widened to the later members of the same families; no other provider publishes
the tokenizer of its hosted models in that form, so all of those are estimates.

Tokens: tiktoken reads its vocabularies from a cache folder and downloads what is missing; `BUNDLED` has those that matter in exactly that
form, so a file is looked for there too, checked against its published SHA-256 before tiktoken sees it (it would delete and fetch again what
does not match), and nothing is ever downloaded.

Counts are kept by the text's hash and length, not by the text. Long texts are cut where both of OpenAI's splitting patterns start a
new piece anyway, so that the sum is the count of the whole; where there is no such place (a run of 50,000 letters) the cut may cost
a token or two and the count says that it is not exact.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import ceil, inf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from proxy.config.settings import ModelSettings
from proxy.language.lru import LRU
from proxy.offloop import each, give_back_memory, leave_loop
from proxy.ports import ModelInfo, Rate

if TYPE_CHECKING:
    import tiktoken


log = logging.getLogger(__name__)


class Entry(Struct, array_like=True, frozen=True, gc=False):
    """What the list has of a model: window and longest answer in tokens, then as `ModelInfo` has them. Compact, as there are thousands."""

    window: int | None
    longest: int | None
    input: float | None
    output: float | None
    cached: float | None
    written: float | None
    rates: tuple[Rate, ...] = ()


_NOTHING = Entry(None, None, None, None, None, None)

BUNDLED = Path(__file__).parent / "bundled"
PRICE_LIST = "prices.json"
"""Made of litellm's package, as the vocabularies beside it: ``python -m requirements.bundled``."""
REMEMBERED_NAMES, _LONGEST_NAME = 1024, 512
"""Names come from clients and servers, so what is kept of them is bounded; of one with more characters nothing is known."""

_OPENAI_HOSTS = frozenset(("openai", "azure", "azure_ai", "openrouter", "vercel_ai_gateway", "us", "eu", "global", "global-standard"))
"""Prefixes behind which a name of OpenAI's means OpenAI's model: ``azure/eu/gpt-4o``, ``openrouter/openai/gpt-4o``."""

_STAMP = r"(-\d{4}-\d\d-\d\d|-\d{4}|-preview|-latest)*"
_FAMILIES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(f"(?:{names}){_STAMP}"), encoding)
    for names, encoding in (
        (r"(chatgpt-|gpt-)4o(-mini)?(-audio|-search|-realtime)?", "o200k_base"),
        (r"gpt-4\.(1(-mini|-nano)?|5)", "o200k_base"),
        (r"gpt-5(\.\d+)?(-(mini|nano|pro|chat|codex|max|luna|sol|terra|search|api))*", "o200k_base"),
        (r"o1(-mini|-pro)?|o3(-mini|-pro|-deep-research)?|o4-mini(-deep-research)?", "o200k_base"),
        (r"gpt-4(-turbo|-32k|-vision|-\d{4})*", "cl100k_base"),
        (r"gpt-3\.?5-turbo(-16k|-instruct|-\d{4})*", "cl100k_base"),
        (r"text-embedding-(ada-002|3-small|3-large)|davinci-002|babbage-002", "cl100k_base"),
        (r"gpt-oss-\d+b", "o200k_harmony"),
    )
)
_DATES = re.compile(r"(-\d{4}-\d\d-\d\d|[-@]\d{8}|-\d{4}|-latest|-preview)$")


def encoding_of(name: str) -> str | None:
    """tiktoken encoding of one of OpenAI's models, None for every other name."""
    *hosts, last = name.split("/")
    if not _OPENAI_HOSTS.issuperset(hosts):
        return None
    base = last.split(":")[1] if last.startswith("ft:") and last.count(":") else last
    return next((encoding for names, encoding in _FAMILIES if names.fullmatch(base)), None)


_GEMINI = re.compile(r"(.*/)?gemini-")
_PROMPT_AND_ANSWER = (400_000, 1_050_000)
"""Whole windows of OpenAI's models of which the list has the longest prompt (https://platform.openai.com/docs/models): GPT-5's 272,000
tokens of input stand beside 128,000 of output."""


def _answers_beside_window(name: str, encoding: str | None, window: int | None, longest: int | None) -> bool:
    """Whether the listed window is the longest prompt, beside which the longest answer fits, as Google has it for each of its models."""
    if _GEMINI.match(name):
        return True
    return encoding is not None and (window or 0) + (longest or 0) in _PROMPT_AND_ANSWER


def spellings(name: str) -> Iterator[str]:
    """Names to look up, in order: as given, without its prefixes from the left, and each of these without fine-tune and date."""
    rest = name
    while True:
        yield rest
        base = rest
        if base.startswith("ft:") and ":" in base[3:]:
            base = ":".join(base.split(":")[:2])
            yield base
        undated = _DATES.sub("", base)
        if undated != base:
            yield undated
        if undated.startswith("ft:"):
            yield base[3:]
            yield undated[3:]
        _, slash, rest = rest.partition("/")
        if not slash:
            return


class Catalogue:
    """What is known of models; the bundled list is read at the first question it has to answer."""

    def __init__(self, models: Mapping[str, ModelSettings]) -> None:
        self._models = dict(models)
        self._list: dict[str, Entry] | None = None
        self._lock = Lock()
        self._remembered = lru_cache(REMEMBERED_NAMES)(self._find)

    def find(self, name: str) -> ModelInfo:
        """What is known of the model; never raises."""
        return self._remembered(name) if len(name) <= _LONGEST_NAME else ModelInfo(name, None)

    def _find(self, name: str) -> ModelInfo:
        names = list(dict.fromkeys(spellings(name)))
        listed = self.bundled()
        entry = next((listed[n] for n in names if n in listed), _NOTHING)
        window, longest, prices = entry.window, entry.longest, (entry.input, entry.output, entry.cached, entry.written)
        settings = next((self._models[n] for n in names if n in self._models), None)
        if settings is None:
            encoding = encoding_of(name)
            beside = _answers_beside_window(name, encoding, window, longest)
            return ModelInfo(name, window, longest, encoding, *prices, beside, entry.rates)
        return ModelInfo(name, settings.window, settings.max_output_tokens or longest, settings.encoding, *prices, rates=entry.rates)

    def bundled(self) -> dict[str, Entry]:
        """The bundled list, compact; empty, with a warning, where it cannot be read."""
        with self._lock:
            if self._list is None:
                self._list = _read_list()
            return self._list


def _read_list() -> dict[str, Entry]:
    try:
        return _entries(BUNDLED / PRICE_LIST)
    except (OSError, ValueError) as error:
        log.warning("No bundled list of models (%s): windows and prices are known only for `models:` of config.yaml", error)
        return {}


@lru_cache(1)
def _entries(path: Path) -> dict[str, Entry]:
    """The list, read once in a process, as it never changes. Raises OSError, ValueError."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Entry])


ESTIMATE = "estimate"
"""Instead of an encoding: no public tokenizer, so o200k_base with a margin."""
ESTIMATE_BASE = "o200k_base"
ESTIMATE_MARGIN = 1.3
ESTIMATE_PER_CHARACTER = (
    (re.compile("[\u0080-\u058f]+"), 0.3),  # accented Latin, Greek, Cyrillic, Armenian
    (re.compile("[\u0590-\u08ff]+"), 0.8),  # Hebrew, Arabic
    (re.compile("[\u0900-\u1fff]+"), 1.4),  # Indic scripts, Thai, Georgian, Ethiopic, Khmer
    (re.compile("[\u2000-\U0010ffff]+"), 0.6),  # Chinese, Japanese, Korean, symbols, emoji
)
"""Tokens of an estimate: 1.3 for each of o200k_base's, and so much more for each character by script. o200k_base's 200,000 entries
cover many scripts; a vocabulary of 32,000 to 65,000 splits most of them into letters or bytes. Set so that the other tokenizer in
litellm's wheel (65,000 entries, Claude 2) is not undercounted by more than a tenth in eleven languages and kinds of text:
`python -m benchmarks.tokens` prints the ratios."""
BYTES_PER_TOKEN = 3
"""Where no vocabulary can be had at all. English is near 4 bytes a token, Chinese near 3 to 4, so this errs upward."""

LONGEST_PIECE = 50_000
"""Characters that tiktoken gets at once: a few milliseconds even for a run without any boundary."""
CUT_WINDOW = 2_000
"""Characters before that limit in which a good place to cut is looked for."""
MAX_ENTRIES = 32_768
"""Counts kept; about 200 bytes each."""

_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/"
_FILES = {
    "cl100k_base": ("cl100k_base.tiktoken", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
    "o200k_base": ("o200k_base.tiktoken", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    "o200k_harmony": ("o200k_base.tiktoken", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    "p50k_base": ("p50k_base.tiktoken", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"),
    "r50k_base": ("r50k_base.tiktoken", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"),
}
"""Encoding -> file and SHA-256, as in ``tiktoken_ext.openai_public``."""
_BREAKS = frozenset(" 。，、！？；：")
"""Characters that both patterns put at the head of the following word, if a letter stands on either side."""
_environment = Lock()


class TextCount(NamedTuple):
    """Tokens, and whether that is certain."""

    tokens: int
    exact: bool


class Encodings:
    """Loaded encodings and the counts made with them. Threads may share one."""

    def __init__(self, max_entries: int = MAX_ENTRIES, folders: Callable[[], Iterable[Path]] | None = None) -> None:
        self._folders = folders or cache_folders
        self._loaded: dict[str, tiktoken.Encoding | None] = {}
        self._loading = Lock()
        self._read_at = -inf
        self._counts: LRU[TextCount] = LRU(max_entries)

    def load(self, encoding: str) -> bool:
        """Whether `encoding` can be had; loads it the first time (0.1 to 0.3 s) and warns once when it cannot."""
        name = ESTIMATE_BASE if encoding == ESTIMATE else encoding
        if name not in self._loaded:
            leave_loop()
            with self._loading:
                if name not in self._loaded:
                    self._loaded[name] = _load(name, self._folders())
                    give_back_memory()
                    self._read_at = time.perf_counter()
        return self._loaded[name] is not None

    def reading_since(self, moment: float) -> bool:
        """Whether a vocabulary was being read at some time after `moment`, in `time.perf_counter`'s seconds: who counted waited."""
        return self._loading.locked() or self._read_at > moment

    def is_loaded(self, encoding: str) -> bool:
        """Whether counting can start at once."""
        return (ESTIMATE_BASE if encoding == ESTIMATE else encoding) in self._loaded

    def count(self, text: str, encoding: str) -> TextCount:
        """Tokens of `text`; with the margin for `ESTIMATE`. Marks like ``<|endoftext|>`` are ordinary text."""
        return self.remember(encoding, hash(text), len(text), lambda: self._count(text, encoding)) if text else TextCount(0, True)

    def remember(self, kind: str, digest: int, length: int, compute: Callable[[], TextCount]) -> TextCount:
        """The count kept under this key, or `compute`'s. `kind` keeps things apart that are counted differently."""
        key = (kind, digest, length)
        found = self._counts.get(key)
        if found is None:
            found = compute()
            self._counts.put(key, found)
        return found

    def knows(self, kind: str, digest: int, length: int) -> bool:
        """Whether a count is kept under this key."""
        return (kind, digest, length) in self._counts

    def _count(self, text: str, encoding: str) -> TextCount:
        self.load(encoding)
        tokenizer = self._loaded[ESTIMATE_BASE if encoding == ESTIMATE else encoding]
        if tokenizer is None:
            return TextCount(_by_bytes(text), False)
        tokens, exact = 0, encoding != ESTIMATE
        for piece, clean in each(pieces(text)):
            counted = _encode(tokenizer, piece)
            tokens += counted.tokens
            exact = exact and clean and counted.exact
        return TextCount(tokens if encoding != ESTIMATE else with_margin(tokens, text), exact)


def with_margin(tokens: int, text: str) -> int:
    """An estimate for a tokenizer that is not public, from o200k_base's count of `text`."""
    estimate = ESTIMATE_MARGIN * tokens
    if not text.isascii():
        estimate += sum(weight * sum(map(len, script.findall(text))) for script, weight in ESTIMATE_PER_CHARACTER)
    return ceil(estimate)


def pieces(text: str, longest: int = LONGEST_PIECE, window: int = CUT_WINDOW) -> Iterator[tuple[str, bool]]:
    """`text` in pieces of at most `longest` characters, each with whether the cut after it leaves the count unchanged."""
    start = 0
    while len(text) - start > longest:
        cut = _cut(text, start + longest, start + longest - min(window, longest - 1))
        yield text[start : cut or start + longest], cut is not None
        start = cut or start + longest
    yield text[start:], True


def _cut(text: str, end: int, begin: int) -> int | None:
    """The last place in ``begin < place < end`` where a new piece starts in any case, or None."""
    for place in range(end - 1, begin, -1):
        if text[place] in _BREAKS and text[place - 1].isalpha() and text[place + 1].isalpha():
            return place
        if text[place - 1] == "\n" and text[place].isalpha():
            return place
    return None


def _encode(tokenizer: tiktoken.Encoding, text: str) -> TextCount:
    try:
        return TextCount(len(tokenizer.encode_ordinary(text)), True)
    except BaseException as error:  # a panic in tiktoken's Rust code is no Exception; a ValueError is its splitter giving up
        if type(error).__name__ != "PanicException" and not isinstance(error, ValueError):
            raise
        return TextCount(_by_bytes(text), False)


def _by_bytes(text: str) -> int:
    return ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def _load(name: str, folders: Iterable[Path]) -> tiktoken.Encoding | None:
    folder = _folder_of(name, folders)
    if folder is None:
        return None
    import tiktoken

    with _environment:  # tiktoken takes its folder from the environment only
        before = os.environ.get("TIKTOKEN_CACHE_DIR")
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            encoding = tiktoken.get_encoding(name)
        finally:
            if before is None:
                del os.environ["TIKTOKEN_CACHE_DIR"]
            else:
                os.environ["TIKTOKEN_CACHE_DIR"] = before
    ranks = getattr(encoding, "_mergeable_ranks", None)
    if isinstance(ranks, dict):
        ranks.clear()  # the Rust side has its own copy; this one is only read to pickle, and holds 30 MB
    return encoding


def _folder_of(name: str, folders: Iterable[Path]) -> Path | None:
    """The first folder with this encoding's file, whole; None, with a warning, when there is none."""
    if name not in _FILES:
        log.warning("Encoding %r is not known (there are %s): tokens are estimated", name, ", ".join(_FILES))
        return None
    file, sha256 = _FILES[name]
    cached = hashlib.sha1((_SOURCE + file).encode(), usedforsecurity=False).hexdigest()  # as tiktoken names it
    for folder in folders:
        path = folder / cached
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return folder
    log.warning(
        "The vocabulary of %s is not here: tokens are estimated. To count exactly, save %s as %s in a folder"
        " and set TIKTOKEN_CACHE_DIR to it",
        name,
        _SOURCE + file,
        cached,
    )
    return None


def cache_folders() -> Iterator[Path]:
    """Where vocabularies may lie: the user's own folder first, then the bundled ones, then tiktoken's default."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield BUNDLED
    yield Path(tempfile.gettempdir()) / "data-gym-cache"
