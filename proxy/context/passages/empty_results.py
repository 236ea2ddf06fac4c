"""Whether a retrieval tool's result holds nothing. Part of `proxy.context.tool_results.results`; asked only of tools that retrieve.

Empty is a list without entries, an object whose lists have none and whose counts are 0, or one short sentence that says so.
"""

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern

MAX_CHARS = 240
MAX_FIELDS = 32
MAX_DEPTH = 4
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
    said = text[: MAX_CHARS * 4].strip()
    if said.lower() in _NOTHING:
        return len(text) <= MAX_CHARS * 4 or not text[MAX_CHARS * 4 :].strip()
    return len(said) <= MAX_CHARS and "\n" not in said and _SENTENCE.fullmatch(said) is not None


def is_empty_json(value: object, depth: int = 0) -> bool:
    """Whether parsed JSON holds no entry."""
    if value is None or (isinstance(value, str) and is_empty_text(value)):
        return True
    if isinstance(value, list):
        return depth <= MAX_DEPTH and len(value) <= MAX_FIELDS and all(isinstance(v, list | dict) and _hollow(v, depth + 1) for v in value)
    return isinstance(value, dict) and depth <= MAX_DEPTH and _is_empty_object(value, depth)


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
