"""How much a line of a conversation matters for going on with it: constraints, decisions, open tasks, identifiers, numbers.

What the user lays down comes first, what the assistant found or promised next, then errors that a tool reported. Chat, pasted tables
and logs, and which tools were called say little about the task: they get what room is left. A tool's result is foreign text: what it
asks for is no decision. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from proxy.context.summaries.facts import as_text, capitalised, is_name_in_german, literals, open_call_lines
from proxy.context.summaries.lines import SpokenLine, lines_of
from proxy.context.summaries.words import CHANGE, CONSTRAINT, DECISION, OUTCOME, PREFERENCE, TASK, TROUBLE, content_stems, fold
from proxy.exchange import Message

REQUIRED_SHARE = 0.4
"""Of a summary's budget, for the lines that an LLM's summary must hold; the rest is for its own words."""
_REQUIRED_CHARS = range(12, 201)
"""Length of such a line."""

_PLAIN_WORD = re.compile(r"[(\"'“„«]?[^\W\d_]+(?:['’-][^\W\d_]+)*[.,;:!?)\"'”“»]*")
_DATA_MARK = re.compile(r"\d+|[;|=\t{}<>\[\]]")
_CODE_NAME = re.compile(
    r"(?<![\w/.])(?:[A-Za-z]\w{0,63}\(\)|[A-Za-z]{1,40}(?:_[A-Za-z\d]{1,40}){1,8}|[a-z]{2,40}[A-Z][A-Za-z\d]{1,40})(?!\w)"
)
"""A name in code: ``settle()``, ``idx_cart_owner``, ``useNewFold``."""
_DATA_MARKS = 3
"""Numbers and marks from which a line with few words is a row of a table, a log or code."""
MIN_STEMS = 2
"""Words of meaning below which a line says nothing by itself: "Sounds good.", "Option B." """
_FEW_CHARS = 8
_POLITE = re.compile(
    r"(?:(?:no|kein|keine|aucun|ningun) (?:problem|worries|rush|hurry|thema|sorge|eile|probleme?|souci)|never ?mind|not (?:yet|bad|really)"
    r"|nicht schlimm|noch nicht|pas (?:de souci|mal|grave)|no (?:pasa nada|importa)|sin problema)\b"
)
"""Forms of courtesy that read as prohibitions."""
_RULE, _TASK, _IDENTIFIER, _NUMBER, _NAME, _FINDING = 3.0, 2.5, 2.5, 2.0, 0.5, 1.5
_BARE = 0.5
"""Of a number's worth in an assistant's line that has no identifier: much of it is general talk."""
_ASSISTANT = 0.7
"""Of a user's line's importance."""


def importance(line: SpokenLine, *, german: bool = False) -> float:
    """0 for a line that the task can do without, else the more the worse its loss. `german`: nouns of this chat have capitals."""
    speaker = _speaker(line)
    text = line.text
    if speaker == "call" or text.endswith(("?", "？", ":")) or (speaker != "tool" and is_data(text)):
        return 0.0
    folded = fold(text)
    facts = {fact.kind for fact in literals(text)}
    identified = "identifier" in facts or _CODE_NAME.search(text) is not None
    figures = _IDENTIFIER * identified + _NUMBER * (not facts.isdisjoint(("date", "time", "number")))
    if speaker == "tool":
        return _FINDING + figures if figures and TROUBLE.search(folded) else 0.0
    decided = _RULE * (DECISION.search(folded) is not None)
    task = _TASK * (TASK.search(folded) is not None)
    if speaker == "assistant":
        found = _FINDING * (OUTCOME.search(folded) is not None and bool(figures))
        return _ASSISTANT * (decided + task * bool(figures or decided) + found + figures * (1 if identified else _BARE))
    stems = len(set(content_stems(folded)))
    if not stems or _POLITE.match(folded) is not None or (stems < MIN_STEMS and not figures and len(folded) < _FEW_CHARS):
        return decided
    rule = _RULE * any(cue.search(folded) is not None for cue in (CONSTRAINT, PREFERENCE, CHANGE))
    return max(decided, rule) + task + figures or _NAME * any(not german or is_name_in_german(name) for name, _ in capitalised(text))


def required_lines(messages: Sequence[Message], max_tokens: int, count: Callable[[str], int]) -> tuple[str, ...]:
    """Lines that an LLM's summary of `max_tokens` must hold: open calls, then what matters most in its share; of equals the latest."""
    opened = open_call_lines(messages)
    ranked = {as_text(line): value for line in lines_of(messages) if len(line.text) in _REQUIRED_CHARS and (value := importance(line)) > 0}
    order = {text: i for i, text in enumerate(ranked)}
    left = max_tokens * REQUIRED_SHARE
    kept: list[str] = []
    for text in (*opened, *sorted(ranked, key=lambda text: (-ranked[text], -order[text]))):
        cost = count(text) + 1
        if cost > left:
            break
        kept.append(text)
        left -= cost
    return tuple(sorted(kept, key=lambda text: order.get(text, len(order))))


def is_data(text: str) -> bool:
    """Whether a line is a row of a table, a log or code, or a list of figures, rather than a sentence."""
    return len(_DATA_MARK.findall(text)) >= _DATA_MARKS and (_plain_share(text) < 0.5 or is_row(text))


def is_row(text: str) -> bool:
    """Whether its marks make a line a row of a table, a log or code: a few out of many say nothing."""
    return sum(not mark.isdigit() for mark in _DATA_MARK.findall(text)) > 1 and _plain_share(text) <= 0.5


def _plain_share(text: str) -> float:
    pieces = text.split()
    return sum(_PLAIN_WORD.fullmatch(piece) is not None for piece in pieces) / max(1, len(pieces))


def _speaker(line: SpokenLine) -> str:
    """``user``, ``assistant``, ``call`` or ``tool``; of an earlier summary's line by its label."""
    if line.kind != "summary":
        return line.kind
    first, _, rest = line.label.partition(" ")
    return "call" if rest.startswith("called") else {"Assistant": "assistant", "Tool": "tool"}.get(first, "user")
