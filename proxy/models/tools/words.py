"""What is indexed of a tool and asked of the index, and matching by words: pure functions from a tool or a query to words and texts, BM25
over them, and a short list for the first question over tools of which nothing is known.

A tool is seen four ways: its name as words, its purpose (the name without its server's, and the first sentences of its description),
the words of both one by one, and the words of everything with its parameters'. Names come in every style (``searchFlights``,
``mcp_server__search-flights``), descriptions are mostly English, queries are in any language.

BM25 is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009); the inverse document frequency is
Lucene's, which is never negative. Postings are one pair of arrays ordered by term, so that a query is a few slices and one count.

Of the short list (`shortlist`) come in the views of every tool with their rough vectors (`proxy.ports.Embedder.rough`), and go out the
tools that share most words with the question in turns with those whose rough vectors are nearest to it. Only these are embedded while
somebody waits, and ranked among each other as a catalogue of their own.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.exchange import Tool
from proxy.language.names import split_tool_name
from proxy.language.words import FUNCTION_WORDS

MAX_DESCRIPTION_CHARS = 200
"""Of a description that is embedded: what a tool is for stands in its first sentence or two. What comes after (arguments, examples,
warnings) makes the vectors of all tools alike, and the encoder's time grows with the length."""
_SENTENCES_CHARS = 100
"""From which no further sentence is taken."""
MAX_WORDS = 24
"""Of a text that are compared one by one."""
MAX_QUERY_WORDS = 8
"""Of a query, its longest: an embedding of each that is new costs more than a millisecond. All rank MetaTool's queries for two tools 0.02
better (COMP@5), the others no better."""
MAX_QUERY_CHARS = 1500
MAX_SEGMENTS = 6
"""More are joined with their neighbours: an embedding of each costs about a millisecond, and twelve rank Seal-Tools' longest queries no
better than six."""
_MIN_SEGMENT_CHARS = 9
_MAX_PARAMETER_DEPTH = 3
_MAX_WORD_CHARS = 32

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[_.\-/:]+")
_WORD = re.compile(r"[a-z0-9]+|[^\W\d_a-z]+")
_WHOLE_WORD = re.compile(r"[^\W_]+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SEGMENT = re.compile(r"(?<=[.!?;])\s+|[,\n]\s*|\s(?:and|then|also|und|dann|sowie|y|luego|et|puis)\s|[。！？；，、]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n\s*\n")
_SUFFIXES = ("ations", "ation", "ings", "ing", "ied", "ies", "ers", "er", "ed", "es", "s", "e")
_STOP_WORDS = frozenset(
    """
    a an the of for to in on at by with and or is are was be this that these those i you me my we it its can could would please do
    does how what which who when where from about as need want like help get give tell show find some any if your their there have
    has into
    """.split()  # noqa: SIM905 - a list of words reads better as words
)


class ToolText(Struct, frozen=True):
    """The views of one tool."""

    key: str
    """Identifies the tool and its wording: what was learned of it holds for this key."""
    name: str
    described: str
    words: tuple[str, ...]
    """Of name and purpose, each once, as they are."""
    terms: tuple[str, ...]
    name_terms: tuple[str, ...]
    family: str
    """What the name starts with: the server's name, or else the first word."""


def tool_text(tool: Tool) -> ToolText:
    """Of any tool, however incomplete; a tool without a name has empty views."""
    function = tool.get("function")
    function = function if isinstance(function, Mapping) else {}
    name, description = _string(function.get("name")), _string(function.get("description"))
    parameters = " ".join(_parameter_words(function.get("parameters"), 0))
    server, short = split_tool_name(name)
    own = spaced(short)
    names = terms(name)
    purpose = first_sentences(description)
    digest = hashlib.blake2b(f"{name}\0{description}\0{parameters}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return ToolText(
        key=f"{name[:128]}@{digest}",
        name=spaced(name),
        described=f"{own}. {purpose}"[:MAX_DESCRIPTION_CHARS],
        words=content_words(f"{name} {purpose}"),
        terms=(*names, *names, *terms(description), *terms(parameters)),
        name_terms=names,
        family=(server or own.partition(" ")[0]).lower(),
    )


def first_sentences(description: str) -> str:
    """What a tool is for: the first sentence, and those behind it until there are some hundred characters."""
    found = ""
    for sentence in _SENTENCE_END.split(description.strip()[: 4 * MAX_DESCRIPTION_CHARS]):
        found = f"{found} {' '.join(sentence.split())}".strip()
        if len(found) >= _SENTENCES_CHARS:
            break
    return found


def content_words(text: str) -> tuple[str, ...]:
    """Words that say something, each once, at most `MAX_WORDS`; without endings taken off, as an embedding wants them."""
    found = (word[:_MAX_WORD_CHARS] for word in _WHOLE_WORD.findall(spaced(text).lower()))
    return tuple(islice(dict.fromkeys(word for word in found if not _says_nothing(word)), MAX_WORDS))


def query_words(query: str) -> tuple[str, ...]:
    """The content words of a query that are compared, in their order."""
    words = content_words(query)
    kept = sorted(words, key=len, reverse=True)[:MAX_QUERY_WORDS]
    return tuple(word for word in words if word in kept)


def _says_nothing(word: str) -> bool:
    plain = word if word.isascii() else unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode() or word
    return plain in FUNCTION_WORDS or plain in _STOP_WORDS


def spaced(name: str) -> str:
    """``searchFlights``, ``search_flights`` and ``search-flights`` as ``search Flights``, ``search flights``."""
    return " ".join(_SEPARATORS.sub(" ", _CAMEL.sub(" ", name)).split())


def terms(text: str) -> tuple[str, ...]:
    """Words for lexical matching: lower case, without English stop words and endings; pairs of characters where no spaces part words."""
    found: list[str] = []
    for word in _WORD.findall(spaced(text).lower()):
        if not word.isascii() and _WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif word not in _STOP_WORDS:
            found.append(_stem(word) if len(word) <= _LONGEST_STEMMED_CHARS else word)
    return tuple(found)


def segments(query: str) -> list[str]:
    """The parts of a query that may each need a tool of its own, at most `MAX_SEGMENTS`; none where it is one part."""
    parts = [part.strip() for part in _SEGMENT.split(query)]
    parts = list(dict.fromkeys(part for part in parts if len(part) >= _MIN_SEGMENT_CHARS or (_WIDE.search(part) and len(part) > 2)))
    if len(parts) < 2:
        return []
    joined = -(-len(parts) // MAX_SEGMENTS)
    return [" ".join(parts[i : i + joined]) for i in range(0, len(parts), joined)]


def clipped(query: str) -> str:
    """The head and the tail of a long query: an instruction stands before or after what was pasted."""
    if len(query) <= MAX_QUERY_CHARS:
        return query
    half = MAX_QUERY_CHARS // 2
    return f"{query[:half]}\n{query[-half:]}"


_LONGEST_STEMMED_CHARS = 64
"""A longer word is an identifier, and none to keep among `_stem`'s last ones."""


@lru_cache(20_000)
def _stem(word: str) -> str:
    if len(word) > 4 and word.isascii():
        for suffix in _SUFFIXES:
            if word.endswith(suffix) and len(word) - len(suffix) >= 3:
                return word[: -len(suffix)]
    return word


def _parameter_words(schema: Any, depth: int) -> Iterator[str]:
    """Names and descriptions of a JSON schema's properties, those of nested objects too."""
    if not isinstance(schema, Mapping) or depth > _MAX_PARAMETER_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, value in properties.items():
            yield str(name)
            if isinstance(value, Mapping):
                yield _string(value.get("description"))
                yield from _parameter_words(value, depth + 1)
    yield from _parameter_words(schema.get("items"), depth + 1)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


_K1, _B = 1.2, 0.75
"""The values that Lucene uses."""


class Match(Struct, frozen=True):
    """How a query matches every document; arrays of shape ``(documents,)``, float32."""

    bm25: NDArray[np.float32]
    coverage: NDArray[np.float32]
    """Share of the query's terms that the document has, weighted by inverse document frequency, 0 to 1."""
    covered: NDArray[np.float32]
    """Share of the document's distinct terms that the query has, weighted likewise, 0 to 1."""


class LexicalIndex:
    """An inverted index of documents that are lists of terms."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._size = len(documents)
        lengths = np.array([len(document) for document in documents], np.float32)
        mean = max(1.0, float(lengths.mean())) if self._size else 1.0
        number: dict[str, int] = {}
        lists = [[number.setdefault(term, len(number)) for term in document] for document in documents]
        terms = np.fromiter(chain.from_iterable(lists), np.int64)
        owners = np.repeat(np.arange(self._size), lengths.astype(np.int64))
        pairs, counts = np.unique(terms * max(1, self._size) + owners, return_counts=True)
        self._rows, term_of = pairs % max(1, self._size), pairs // max(1, self._size)
        often = np.bincount(term_of, minlength=len(number))
        idf = [math.log(1 + (self._size - n + 0.5) / (n + 0.5)) for n in often.tolist()]
        rarity = np.array(idf, np.float64)[term_of]
        share = counts + _K1 * (1 - _B + _B * lengths[self._rows] / mean)
        self._weights = (rarity * counts * (_K1 + 1) / share).astype(np.float32)
        self._unknown = math.log(1 + (self._size + 0.5) / 0.5)
        ends = np.cumsum(often).tolist()
        self._slices = {term: (slice(end - n, end), one) for term, n, end, one in zip(number, often.tolist(), ends, idf, strict=True)}
        self._totals = np.bincount(self._rows, rarity, self._size).astype(np.float32) + np.float32(1e-6)

    def match(self, query: Iterable[str]) -> Match:
        """`query`'s terms against every document; a term counts once."""
        distinct = set(query)
        found = sorted((self._slices[term] for term in distinct if term in self._slices), key=lambda item: item[0].start)
        total = sum(idf for _, idf in found) + self._unknown * sum(term not in self._slices for term in distinct)
        bm25 = shared = np.zeros(self._size, np.float32)
        if found:
            rows = np.concatenate([self._rows[where] for where, _ in found])
            weights = np.concatenate([self._weights[where] for where, _ in found])
            rarity = np.repeat([idf for _, idf in found], [where.stop - where.start for where, _ in found])
            bm25, shared = (np.bincount(rows, values, self._size).astype(np.float32) for values in (weights, rarity))
        return Match(bm25, shared / np.float32(total + 1e-6), shared / self._totals)


Floats = NDArray[np.float32]

SHORTLIST = 48
"""Tools that are embedded first: a fifth of a second of one core at the most. Of 200 to 4,100 they hold 96 of 100 that are needed, half as
many 93; the whole index's first five hold 60 to 90 (`python -m benchmarks.tools`)."""


class NewTools(Struct, frozen=True):
    """What is known of a set of tools without the model."""

    texts: tuple[ToolText, ...]
    words: LexicalIndex
    rough: Floats
    """``(tools, any)``, of `rough_text`."""


def new_tools(texts: Sequence[ToolText], rough: Floats) -> NewTools:
    """Ready to be searched."""
    return NewTools(tuple(texts), LexicalIndex([text.terms for text in texts]), rough)


def rough_text(text: ToolText) -> str:
    """What of a tool is compared roughly."""
    return f"{text.name} {text.described}"


def shortlist(tools: NewTools, queries: Sequence[str], rough: Floats, most: int = SHORTLIST) -> list[int]:
    """At most `most` positions, ascending. `rough` is of the queries, of which each names as many."""
    orders = []
    for query, vector in zip(queries, rough, strict=True):
        matched = tools.words.match(terms(query)).bm25
        by_words = np.argsort(-matched, kind="stable")
        orders += [by_words[matched[by_words] > 0].tolist(), np.argsort(-(tools.rough @ vector), kind="stable").tolist()]
    found: dict[int, None] = {}
    for at in range(len(tools.texts)):
        for order in orders:
            if at < len(order) and len(found) < most:
                found.setdefault(order[at])
        if len(found) >= most:
            break
    return sorted(found)
