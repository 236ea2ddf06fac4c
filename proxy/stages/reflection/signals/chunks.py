"""Which chunks a retrieval tool's result holds: its text in, names of the chunks out. Pure.

A chunk of a JSON list is named by its own id (``chunk_id``, ``id``, and a position in the document if it has one), or by its document and
position. Any other passage is named by its text: a document's id alone says nothing about which part of it was returned, and ids that
only count the results (1, 2, 3) say nothing at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from proxy.context.passages import result_passages
from proxy.language.json.fingerprint import normalised_text

OWN_IDS = ("chunk_id", "chunkId", "id", "_id")
DOCUMENT_IDS = ("doc_id", "docId", "document_id", "source", "url", "uri", "path", "file", "filename")
POSITIONS = ("position", "chunk_index", "chunk", "page", "section", "offset", "start", "part", "line", "start_line")
MIN_PASSAGE_CHARS = 40
"""A passage that is shorter and has no id ("OK", "no entry") names nothing."""
MAX_JSON_CHARS = 1_000_000
MAX_PASSAGE_CHARS = 20_000
"""A longer result is not taken apart into passages: it is one chunk."""
MAX_DEPTH = 6
MAX_CHUNKS = 200


def chunks_of(text: str) -> frozenset[str]:
    """The chunks' names, hexadecimal; none where the result is empty, an error, or too short to tell."""
    ids = list(islice(_listed(_json(text), MAX_DEPTH), MAX_CHUNKS + 1))
    ranks = {f"{n} " for n in range(len(ids) + 1)}
    if ids and all(ids) and len(ids) <= MAX_CHUNKS and not ranks.issuperset(ids):
        return frozenset(_hash(name) for name in ids)
    if len(text) > MAX_PASSAGE_CHARS:
        return frozenset((_hash(text),))
    passages = [passage.content for passage in result_passages(text)]
    return frozenset(_hash(normalised_text(content)) for content in passages if len(content.strip()) >= MIN_PASSAGE_CHARS)


def _json(text: str) -> Any:
    if len(text) > MAX_JSON_CHARS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _listed(value: Any, depth: int) -> Iterator[str]:
    """For each object of the outermost lists the name of its chunk; "" for one that has no id."""
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, Mapping)]
        yield from (_name(item) for item in objects)
        if objects and len(objects) < len(value):
            yield ""
    elif isinstance(value, Mapping) and depth:
        for nested in value.values():
            if isinstance(nested, Mapping | list):
                yield from _listed(nested, depth - 1)


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    layers = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    own, document, position = (_first(layers, names) for names in (OWN_IDS, DOCUMENT_IDS, POSITIONS))
    return f"{own} {position}" if own else f"{document} {position}" if document and position else ""


def _first(layers: tuple[Mapping[str, Any], ...], names: tuple[str, ...]) -> str:
    found = (layer.get(name) for layer in layers for name in names)
    return next((f"{value}" for value in found if isinstance(value, str | int) and not isinstance(value, bool) and value != ""), "")


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
