"""What a client's memory says of the user, in whatever message it was put: where it stands, and how many tokens it takes.

A memory is a marked section of a message ("<memory>", "## User profile"), what the client names as its source, or the result of a tool
that remembers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from proxy.context.conversation import called_names, last_user, result_name
from proxy.exchange import ContextUse, Exchange, Message
from proxy.language.patterns import LazyPattern
from proxy.language.text import text_of

PREFERENCES = "user_preferences"
"""The component of a prompt that memories are, among a budget's allocations."""
_NAMED = (
    r"memor(?:y|ies|ias?)|erinnerungen?|gedächtnis|mémoires?|(?:user|customer|nutzer|kunden)[ _-]?(?:profile?|preferences|facts|info)|"
    r"perfil del usuario|profil de l['’]utilisateur"
)
MEMORY_SOURCE = LazyPattern(
    r"(?:^|[\W_])(?:memor(?:y|ies)|mem0|zep|remember\w*|recall\w*|user_?(?:profile|preferences|facts))(?:$|[\W_])", re.I
)
_MEMORY_TAG = re.compile(rf"<((?:\w{{1,20}}[_-])?(?:{_NAMED})(?:[_-]\w{{1,20}})?)>", re.I)
_MAX_CHARS = 20_000
"""Of a tagged section."""
_LABEL = (
    rf"(?:(?:known |stored |saved )?(?:{_NAMED}|(?:facts|preferences|notes) (?:about|of|on) the (?:user|customer|client))|"
    r"what (?:you|we|i) (?:know|remember) (?:about|of) the (?:user|customer|client)(?: \(\w{3,12}\))?|"
    r"memoria del usuario|mémoire (?:de l['’]utilisateur|du client)|über den (?:nutzer|kunden) gespeichert|gespeichert|gemerkt|guardado)"
)
_MEMORY_HEADING = re.compile(
    rf"^(?:#{{1,4}} [^\n]{{0,60}}?\b{_LABEL}\b[^\n]{{0,60}}\n|(?:[^\n]{{0,120}}?[.!?] )?(?:\*\*)?{_LABEL}(?:\*\*)?:(?:\*\*)?[ \t]*\n?)"
    r"(?P<body>(?:(?!\#{1,4} )[^\n]+(?:\n|\Z))+)",
    re.I | re.M,
)


def memories_in(text: str) -> list[tuple[int, int]]:
    """Where memories stand in a message's text."""
    headed = ":" in text or "# " in text  # as every heading is
    return list(_tagged(text)) or ([match.span("body") for match in _MEMORY_HEADING.finditer(text)] if headed else [])


def _tagged(text: str) -> Iterator[tuple[int, int]]:
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
            spans = [(0, len(text))]
        else:
            spans = memories_in(text) if role in ("system", "developer", "user", "assistant") else []
        name = "system_instructions" if role in ("system", "developer") else "current_query" if i == last else "conversation_history"
        found[name] += sum(count(text[start:end]) for start, end in spans)
    return found
