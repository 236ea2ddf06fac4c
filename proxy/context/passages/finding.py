"""Retrieved passages in a conversation: results of retrieval tools, and marked blocks -> `Evidence`. Pure functions.

A tool's result that is JSON with objects that carry text (LangChain's, LlamaIndex's, OpenAI's file search, Elasticsearch's, MCP's
content, …) is one passage per object; any other is searched for marked blocks (`proxy.context.passages.blocks`), or else is one passage.
A part that the client's own API calls a search result or a document is one in any message.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.conversation import named_calls
from proxy.context.passages.blocks import find_blocks
from proxy.exchange import Evidence, Exchange, Message
from proxy.language.dates import seconds_of
from proxy.language.json.strings import parse_json
from proxy.language.lru import by_text
from proxy.language.patterns import LazyPattern
from proxy.language.text import InOrder, text_of
from proxy.offloop import each

RETRIEVAL_TOOLS = tuple(
    """
    *retriev* knowledge* *search*knowledge* *knowledge_base* *knowledgebase* *query_knowledge* kb_search search_kb file_search
    vector_search semantic_search similarity_search hybrid_search *vector_store* *vectorstore* rag rag_* *_rag search_docs
    search_documents search_documentation docs_search document_search documents_search query_documents query_docs search_passages
    search_articles search_wiki* wikipedia_search search_faq* faq_search search_manual* search_policies search_help* help_center_search
    web_search search_web internet_search session_search
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
"""Tools whose results are passages to answer from, unless the policy names others (patterns as of `fnmatch`, whatever the case).

Those search a body of text and return pieces of it. A tool that opens one thing by name (`read_file`, `cat`, `browser`, `fetch_url`),
looks for code (`grep`, `search_code`, `search_files`), edits (`search_replace`) or returns records (`search_flights`, `search_orders`) is
none: its result is what the agent works on, and nobody promised to answer from it alone.
"""
CONTENT_KEYS = ("page_content", "content", "text", "passage", "chunk", "snippet", "body", "excerpt", "document", "markdown", "summary")
SOURCE_KEYS = ("source", "url", "uri", "link", "href", "path", "file_path", "file", "filename", "file_name", "title", "name", "id")
SCORE_KEYS = ("score", "relevance", "relevance_score", "similarity", "rerank_score", "_score")
TIME_KEYS = ("timestamp", "date", "published_at", "published", "updated_at", "last_modified", "created_at")
ARGUMENT_KEYS = ("path", "file_path", "filename", "file", "url", "uri")
"""Arguments of a retrieval tool that say where its result comes from."""
MAX_DEPTH = 8
MIN_STRING_CHARS = 20
"""A list's bare string is a passage from this length on; shorter ones are names and tags."""
_FAILURE = re.compile(
    r"\s{0,20}(?:<?error\s{0,3}[:>]|error (?:while|reading|executing|calling|code|\d)|\w{0,40}(?:exception|error)\s{0,3}:|traceback \("
    r"|failed (?:to|with)|fehler\s{0,3}:|no (?:\w{1,20} )?(?:results?|match(?:es)?|documents?|passages?) (?:were )?found|not found|"
    r"(?:null|none|no results?|\[\]|\{\})[.!]?\s{0,20}$)",
    re.I,
)
MAX_ERROR_CHARS = 400
"""A result that begins like an error and is longer than this is taken for content."""


class _Call(Struct, frozen=True):
    name: str
    arguments: str = ""

    @property
    def source(self) -> str:
        """Where its result comes from, by its arguments."""
        value = parse_json(self.arguments)
        return _first(value, ARGUMENT_KEYS) if isinstance(value, Mapping) else ""


def passages_of(exchange: Exchange) -> list[Evidence]:
    """The passages in the client's messages, as `find_passages` finds them."""
    given = exchange.original.messages, exchange.retrieval_tools
    return exchange.once("passages", given, partial(find_passages, *given))


def find_passages(messages: Sequence[Message], retrieval_tools: Sequence[str] = RETRIEVAL_TOOLS) -> list[Evidence]:
    """The passages that stand in `messages`, in order, each text once."""
    calls: dict[str, _Call] = {}
    found: dict[str, Evidence] = {}
    for i, message in enumerate(each(messages)):
        role = message.get("role")
        marked, content = _api_passages(message.get("content"))
        for passage in marked:
            found.setdefault(passage.content.strip(), replace(passage, message_index=i))
        if role == "assistant":
            calls |= _calls(message)
        elif role in ("tool", "function"):
            call = _call_of(message, calls)
            if is_retrieval_tool(call.name, retrieval_tools):
                for passage in result_passages(text_of(content), call.source or call.name):
                    found.setdefault(passage.content.strip(), replace(passage, message_index=i))
        elif role in ("system", "developer", "user"):
            for block in find_blocks(text_of(content), role):
                found.setdefault(block.content.strip(), Evidence(block.content, block.source, message_index=i, score=block.score))
    return list(found.values())


def _api_passages(content: object) -> tuple[list[Evidence], object]:
    """The parts that the client's API itself calls passages (search results, documents), and the content without them."""
    if not isinstance(content, list):
        return [], content
    found: list[Evidence] = []
    rest = []
    for part in content:
        about = part.get("passage") if isinstance(part, Mapping) else None
        if isinstance(about, Mapping) and (text := text_of([part])).strip():
            found.append(Evidence(text, source=str(about.get("source") or "")))
        else:
            rest.append(part)
    return found, rest


def absent_passages(passages: Sequence[Evidence], messages: Sequence[Message]) -> list[Evidence]:
    """Those of ``groundwire.context`` whose text does not stand in `messages`."""
    there = InOrder("\0".join(text_of(message.get("content")) for message in messages))
    return [p for p in passages if p.message_index is None and (said := p.content.strip()) and there.find(said) < 0]


def retrieval_results(messages: Sequence[Message], retrieval_tools: Sequence[str] = RETRIEVAL_TOOLS) -> list[str]:
    """What the retrieval tools have answered since the user's last message, as they said it."""
    calls: dict[str, _Call] = {}
    found: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "user":
            found = []
        elif role == "assistant":
            calls |= _calls(message)
        elif role in ("tool", "function") and is_retrieval_tool(_call_of(message, calls).name, retrieval_tools):
            found.append(text_of(message.get("content")))
    return found


def is_retrieval_tool(name: str, patterns: Sequence[str] = RETRIEVAL_TOOLS) -> bool:
    """Whether `name`, or what follows ``__`` in a name such as ``server__tool``, matches one of `patterns`."""
    return _is_one_of(name, tuple(patterns))


@by_text(2048)
def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    names = {name.lower(), name.lower().rpartition("__")[2]}
    matches = _one_of(patterns).match
    return any(matches(candidate) is not None for candidate in names if candidate)


@lru_cache(maxsize=64)
def _one_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """What matches where one of `patterns` does."""
    return re.compile("|".join(translate(pattern.lower()) for pattern in patterns) or "(?!)")


def result_passages(text: str, source: str = "") -> list[Evidence]:
    """A tool's result as passages; none when it is empty or reports an error. `source` counts where the result names none."""
    if not text.strip() or (len(text) <= MAX_ERROR_CHARS and _FAILURE.match(text)):
        return []
    value = parse_json(text)
    if value is not None:
        if _is_error(value):
            return []
        if found := list(_walk(value, Evidence("", source, "tool_result"), MAX_DEPTH)):
            return found
    blocks = [Evidence(b.content, b.source or source, "tool_result", score=b.score) for b in find_blocks(text)]
    return blocks or [Evidence(text, source, "tool_result")]


def _calls(message: Message) -> dict[str, _Call]:
    """The tools that an assistant message calls, by the call's id."""
    return {id_ or f"function {name}": _Call(name, arguments) for id_, name, arguments in named_calls(message)}


def _call_of(message: Message, calls: Mapping[str, _Call]) -> _Call:
    name = message.get("name")
    name = name if isinstance(name, str) else ""
    key = f"function {name}" if message.get("role") == "function" else message.get("tool_call_id")
    return calls.get(key, _Call(name)) if isinstance(key, str) else _Call(name)


# ---- JSON results ----


def _is_error(value: Any) -> bool:
    """Whether a result says that it failed: ``error`` with a value, ``isError``, ``success: false``."""
    if not isinstance(value, Mapping):
        return not value
    failed = value.get("isError") is True or value.get("is_error") is True or value.get("success") is False or value.get("ok") is False
    return failed or bool(value.get("error") or value.get("errors")) or not value


def _walk(value: Any, about: Evidence, depth: int) -> Iterator[Evidence]:
    """The passages in `value`; what an object says of its source, score and time counts for all below it."""
    if depth == 0:
        return
    if isinstance(value, list):
        for item in value:
            if not isinstance(item, str):
                yield from _walk(item, about, depth - 1)
            elif len(item.strip()) >= MIN_STRING_CHARS:
                yield replace(about, content=item)
    elif isinstance(value, Mapping):
        about = _with_metadata(value, about)
        own = next((text for key in CONTENT_KEYS if isinstance(text := value.get(key), str) and text.strip()), "")
        kinds = list if own else (list, Mapping)
        nested = [item for key, item in value.items() if key != "metadata" and isinstance(item, kinds)]
        below = [passage for item in nested for passage in _walk(item, about, depth - 1)]
        if len(own) > sum(len(passage.content) for passage in below):
            yield replace(about, content=own)
        else:  # a few words about the results that follow, or none
            yield from below


def _with_metadata(value: Mapping[str, Any], about: Evidence) -> Evidence:
    metadata = value.get("metadata")
    for layer in (value, metadata if isinstance(metadata, Mapping) else {}):
        score = next((n for key in SCORE_KEYS if (n := _finite(layer.get(key))) is not None), about.score)
        timestamp = next((t for key in TIME_KEYS if (t := seconds_of(layer.get(key))) is not None), about.timestamp)
        about = replace(about, source=_first(layer, SOURCE_KEYS) or about.source, score=score, timestamp=timestamp)
    return about


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((text.strip() for key in keys if isinstance(text := value.get(key), str) and text.strip()), "")


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


# ---- results in which nothing was found ----
#
# Whether a retrieval tool's result holds nothing; asked only of tools that retrieve. Empty is a list without entries, an object whose lists
# have none and whose counts are 0, or one short sentence that says so.

_MAX_SAID_CHARS = 240
MAX_FIELDS = 32
_DEEPEST = 4
_NOUN = (
    r"(?:results?|match(?:es)?|hits?|documents?|records?|rows?|items?|entries|entry|passages?|articles?|pages?|data|files?|content|"
    r"information|sources?|chunks?|answers?|relevant \w{1,20}|matching \w{1,20})"
)
_SENTENCE = LazyPattern(
    rf"(?:sorry[,.]? |your search |the search |the query |search |query |we |i |there (?:are|were|is|was) )?(?:(?:no|0|"
    rf"zero) (?:\w{{1,20}} ){{0,3}}?{_NOUN}|(?:found|returned|got|returning|has|had) (?:no|0|zero|nothing)|nothing (?:was )?(?:found|"
    rf"matche)|no such \w{{1,20}}|none found|no matches|(?:did not|didn't) (?:match|return|find) any|0 of \d|couldn't find any|"
    rf"could not find any|not found|empty(?: results?| list)?$)\b[^.\n]{{0,160}}[.!]?|"
    r"(?:es wurden? |leider )?(?:keine|0|kein) (?:\w{1,24} )?(?:ergebnisse?|treffer|dokumente?|einträge|eintrag|resultate?|daten|"
    r"übereinstimmung(?:en)?|dateien)\b[^.\n]{0,120}[.!]?|nichts gefunden[.!]?|die suche (?:ergab|lieferte) keine [^.\n]{1,80}[.!]?|"
    r"(?:no se (?:encontr(?:ó|aron)|han? encontrado|hallaron)|sin|no hay|0|ningún|ninguna?) (?:\w{1,20} )?(?:resultados?|coincidencias?|"
    r"documentos?|registros?|datos|entradas?|archivos?)\b[^.\n]{0,120}[.!]?|(?:aucune?|0|pas de|il n'y a (?:aucune?|"
    r"pas de)) (?:\w{1,20} )?(?:résultats?|correspondances?|documents?|données?|enregistrements?|entrées?|fichiers?)\b[^.\n]{0,120}[.!]?",
    re.I,
)
_NOTHING = frozenset({"", "null", "none", "nil", "[]", "{}", '""', "n/a", "()", "undefined"})
_COUNTS = LazyPattern(
    r"(?:total|count|hits|matches|found|n)(?:_?(?:results|count|hits|items|found|matches))?|num_?(?:results|found|hits)|size|length|"
    r"totalhits",
    re.I,
)
_LISTS = LazyPattern(
    r"(?:results?|items?|hits?|documents?|docs?|matches|records?|rows?|data|passages?|chunks?|entries|nodes?|edges?|ids|metadatas|"
    r"distances|value|values|organic(?:_results)?|articles|pages|files|sources|context|treffer|ergebnisse|resultados|résultats|"
    r"resultats|response|content|output)",
    re.I,
)

_ABOUT = frozenset({"query", "filters", "filter", "params", "meta", "metadata", "_shards", "request", "facets", "pagination", "usage"})
"""Fields that are no content."""
_SAYING = frozenset({"message", "text", "detail"})


def is_empty_text(text: str) -> bool:
    """Whether text says, in one sentence, that nothing was found, or says nothing."""
    said = text[: _MAX_SAID_CHARS * 4].strip()
    if said.lower() in _NOTHING:
        return len(text) <= _MAX_SAID_CHARS * 4 or not text[_MAX_SAID_CHARS * 4 :].strip()
    return len(said) <= _MAX_SAID_CHARS and "\n" not in said and _SENTENCE.fullmatch(said) is not None


def is_empty_json(value: object, depth: int = 0) -> bool:
    """Whether parsed JSON holds no entry."""
    if value is None or (isinstance(value, str) and is_empty_text(value)):
        return True
    if isinstance(value, list):
        return depth <= _DEEPEST and len(value) <= MAX_FIELDS and all(isinstance(v, list | dict) and _hollow(v, depth + 1) for v in value)
    return isinstance(value, dict) and depth <= _DEEPEST and _is_empty_object(value, depth)


def _hollow(value: object, depth: int) -> bool:
    """A list of nothing, or a text part that says so."""
    if isinstance(value, dict):
        return value.get("type") == "text" and isinstance(value.get("text"), str) and is_empty_text(value["text"])
    return is_empty_json(value, depth)


def _is_empty_object(value: dict[str, object], depth: int) -> bool:
    if len(value) > MAX_FIELDS:
        return False
    said = False
    for key, item in value.items():
        if _COUNTS.fullmatch(key) and isinstance(item, int) and not isinstance(item, bool):
            empty = not item
        elif _LISTS.fullmatch(key) or (isinstance(item, list | dict) and item and key.lower() not in _ABOUT):
            empty = is_empty_json(item, depth + 1)
        elif key.lower() in _SAYING and isinstance(item, str) and is_empty_text(item):
            empty = True
        else:
            continue
        if not empty:
            return False
        said = True
    return said or not value
