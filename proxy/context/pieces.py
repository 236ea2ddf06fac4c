"""The conversation and its passages -> `ContextPiece`s: each a text that one author wrote, with its place and a hash that follows it.

A message's passages are pieces of their own (a string of a JSON tool result too), and what is left of the message around them is
another. The hash goes by what a piece says: a client that sends its history again has the same pieces, in whatever message they stand.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from proxy.context.conversation import called_names, last_user, result_name
from proxy.exchange import ContextUse, Evidence, Exchange, Message
from proxy.language.dates import seconds_of
from proxy.language.json.strings import JsonString, strings_of
from proxy.language.lru import by_text
from proxy.language.patterns import LazyPattern
from proxy.language.text import InOrder, text_of
from proxy.offloop import each

PieceKind = Literal["system", "user", "assistant", "tool_result", "passage"]
KINDS: tuple[PieceKind, ...] = ("system", "user", "assistant", "tool_result", "passage")
_KIND_OF: Mapping[str, PieceKind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
}


class ContextPiece(Struct, frozen=True):
    """A piece of the context."""

    kind: PieceKind
    text: str
    """What it says; a JSON string's value, without its escapes."""
    hash: str
    """`content_hash` of the kind and the text."""
    message: int | None = None
    """Position in `Exchange.conversation`; None for a passage of ``groundwire.context``, which stands in no message."""
    role: str = ""
    start: int = 0
    """Characters of the message's text (`proxy.language.text.text_of`) before it."""
    end: int = 0
    literal: bool = False
    """Whether ``start`` and ``end`` are those of a JSON string between its quotation marks."""
    source: str = ""
    timestamp: float | None = None
    """Seconds since the epoch, if the client told it."""
    score: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


_SPACES = ("  ", *(char for char in map(chr, range(128)) if char.isspace() and char != " "))
"""White space that is no single blank, in ASCII."""


@by_text(20_000)
def content_hash(text: str, kind: str = "") -> str:
    """32 hexadecimal digits; the same for texts that differ in white space or in how their letters are composed."""
    spaced = not text.isascii() or any(space in text for space in _SPACES)
    plain = " ".join(unicodedata.normalize("NFC", text).split()) if spaced else text.strip()
    return hashlib.blake2b(f"{kind}\0{plain}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def pieces_of(exchange: Exchange, kinds: Sequence[PieceKind] = KINDS) -> list[ContextPiece]:
    """The pieces of these kinds, in the conversation's order; then the passages of ``groundwire.context``."""
    given = exchange.evidence, exchange.passages, exchange.conversation
    return [piece for piece in exchange.once("pieces", given, partial(_every_piece, exchange)) if piece.kind in kinds]


def _every_piece(exchange: Exchange) -> list[ContextPiece]:
    found: list[ContextPiece] = []
    inside: dict[int, list[Evidence]] = {}
    for evidence in exchange.evidence:
        if evidence.message_index is not None and evidence.kind in ("passage", "tool_result"):
            inside.setdefault(evidence.message_index, []).append(evidence)
    for i, message in enumerate(each(exchange.conversation)):
        found += _of_message(exchange, i, message, inside.get(i, ()))
    found += [_passage(evidence) for evidence in exchange.passages if evidence.message_index is None]
    return [piece for piece in found if piece.text.strip()]


def _of_message(exchange: Exchange, i: int, message: Message, passages: Sequence[Evidence]) -> Iterator[ContextPiece]:
    """A message's pieces in order: its passages and what is between them; a JSON result without passages is one piece."""
    kind = _KIND_OF.get(str(message.get("role")))
    text = text_of(message.get("content"))
    if kind is None or not text.strip():
        return
    hint = exchange.original.message_hints.get(i, {})
    about = {
        "message": i,
        "role": str(message.get("role")),
        "source": str(hint.get("source") or message.get("name") or ""),
        "timestamp": seconds_of(hint.get("timestamp")),
    }
    at = 0
    placed = _place_passages(text, passages)
    for evidence, start, end, literal in placed:
        if not literal and text[at:start].strip():
            yield _piece(kind, text[at:start], start=at, end=start, **about)
        own = {"source": evidence.source or about["source"], "timestamp": evidence.timestamp or about["timestamp"]}
        more = {"score": evidence.score, "fields": evidence.fields, "literal": literal}
        yield _piece("passage", evidence.content, start=start, end=end, **{**about, **own, **more})
        at = end
    if text[at:].strip() and not any(literal for *_, literal in placed):
        yield _piece(kind, text[at:], start=at, end=len(text), **about)


def _place_passages(text: str, passages: Sequence[Evidence]) -> list[tuple[Evidence, int, int, bool]]:
    """``(passage, start, end, literal)`` of those that are found in `text`, in order and without overlap."""
    strings: list[JsonString] = (strings_of(text) or []) if passages and text.lstrip()[:1] in ("{", "[") else []
    free: dict[str, list[JsonString]] = {}
    for string in reversed(strings):
        free.setdefault(string.value, []).append(string)
    places = InOrder(text)
    found: list[tuple[Evidence, int, int, bool]] = []
    for evidence in passages:
        if same := free.get(evidence.content):
            string = same.pop()
            found.append((evidence, string.start + 1, string.end - 1, True))
        elif not strings and (start := places.find(evidence.content)) >= 0:
            found.append((evidence, start, start + len(evidence.content), False))
    found.sort(key=lambda one: one[1])
    return [one for k, one in enumerate(found) if not k or one[1] >= found[k - 1][2]]


def _passage(evidence: Evidence) -> ContextPiece:
    about = {"source": evidence.source, "timestamp": evidence.timestamp, "score": evidence.score, "fields": evidence.fields}
    return _piece("passage", evidence.content, end=len(evidence.content), **about)


def _piece(kind: PieceKind, text: str, **about: Any) -> ContextPiece:
    return ContextPiece(kind, text, content_hash(text, kind), **about)


# ---- memories ----
#
# What a client's memory says of the user, in whatever message it was put: where it stands, and how many tokens it takes.
#
# A memory is a marked section of a message ("<memory>", "## User profile"), what the client names as its source, or the result of a tool
# that remembers.

PREFERENCES = "user_preferences"
"""The component of a prompt that memories are, among a budget's allocations."""
_NAMED_MEMORY = (
    r"memor(?:y|ies|ias?)|erinnerungen?|gedächtnis|mémoires?|(?:user|customer|nutzer|kunden)[ _-]?(?:profile?|preferences|facts|info)|"
    r"perfil del usuario|profil de l['’]utilisateur"
)
MEMORY_SOURCE = LazyPattern(
    r"(?:^|[\W_])(?:memor(?:y|ies)|mem0|zep|remember\w*|recall\w*|user_?(?:profile|preferences|facts))(?:$|[\W_])", re.I
)
_MEMORY_TAG = re.compile(rf"<((?:\w{{1,20}}[_-])?(?:{_NAMED_MEMORY})(?:[_-]\w{{1,20}})?)>", re.I)
_MAX_CHARS = 20_000
"""Of a tagged section."""
_LABEL = (
    rf"(?:(?:known |stored |saved )?(?:{_NAMED_MEMORY}|(?:facts|preferences|notes) (?:about|of|on) the (?:user|customer|client))|"
    r"what (?:you|we|i) (?:know|remember) (?:about|of) the (?:user|customer|client)(?: \(\w{3,12}\))?|"
    r"memoria del usuario|mémoire (?:de l['’]utilisateur|du client)|über den (?:nutzer|kunden) gespeichert|gespeichert|gemerkt|guardado)"
)
_MEMORY_HEADING = re.compile(
    rf"^(?:#{{1,4}} [^\n]{{0,60}}?\b{_LABEL}\b[^\n]{{0,60}}\n|(?:[^\n]{{0,120}}?[.!?] )?(?:\*\*)?{_LABEL}(?:\*\*)?:(?:\*\*)?[ \t]*\n?)"
    r"(?P<body>(?:(?!\#{1,4} )[^\n]+(?:\n|\Z))+)",
    re.I | re.M,
)


@by_text(8192)
def memories_in(text: str) -> tuple[tuple[int, int], ...]:
    """Where memories stand in a message's text."""
    headed = ":" in text or "# " in text  # as every heading is
    return tuple(_inside_tags(text)) or (tuple(match.span("body") for match in _MEMORY_HEADING.finditer(text)) if headed else ())


def _inside_tags(text: str) -> Iterator[tuple[int, int]]:
    """The insides of tags that are closed; each closing tag is looked for once."""
    closing: dict[str, int] = {}
    at = 0
    for opening in _MEMORY_TAG.finditer(text):
        name, start = opening[1], opening.end()
        if opening.start() < at or closing.get(name, start) < 0:
            continue
        if closing.get(name, -1) < start:
            closing[name] = text.find(f"</{name}>", start)
        inside = text[start : closing[name]] if 0 <= closing[name] <= start + _MAX_CHARS else ""
        if inside.strip():
            at = closing[name]
            yield start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def with_preferences(use: ContextUse, exchange: Exchange, messages: Sequence[Message], count: Callable[[str], int]) -> ContextUse:
    """`use` of `messages` with the tokens of memories as a component of their own, taken from the components they stand in."""
    found = _tokens(exchange, messages, count)
    left = {name: tokens - found[name] for name, tokens in use.components.items()}
    return replace(use, components={**left, PREFERENCES: found.total()})


def _tokens(exchange: Exchange, messages: Sequence[Message], count: Callable[[str], int]) -> Counter[str]:
    """Tokens of memories by the component that they stand in."""
    hints: Mapping[int, Mapping[str, object]] = exchange.original.message_hints
    sources = {id(message): str(hints.get(i, {}).get("source") or "") for i, message in enumerate(exchange.conversation)}
    names, last = called_names(exchange.conversation), last_user(messages)
    found: Counter[str] = Counter()
    for i, message in enumerate(messages):
        role, text = message.get("role"), text_of(message.get("content"))
        tool = result_name(message, names) if role in ("tool", "function") else ""
        if MEMORY_SOURCE.search(sources.get(id(message), "")) or MEMORY_SOURCE.search(tool):
            spans: Sequence[tuple[int, int]] = [(0, len(text))]
        else:
            spans = memories_in(text) if role in ("system", "developer", "user", "assistant") else ()
        name = "system_instructions" if role in ("system", "developer") else "current_query" if i == last else "conversation_history"
        found[name] += sum(count(text[start:end]) for start, end in spans)
    return found
