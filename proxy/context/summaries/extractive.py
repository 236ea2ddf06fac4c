"""The summary that needs no LLM and no network: lines of the conversation, picked for what they add.

Budgeted maximum coverage after Gillick & Favre 2009 ("A scalable global model for summarization"): every line stands for the words and
facts it holds, each with a weight; lines are taken greedily by what they add per token to those already taken (which is also the redundancy
penalty of MMR, Carbonell & Goldstein 1998). Weights say how rare a word is, how often an identifier is spoken of, and whether the current
query asks for it; what the line is worth to the task is added, role and recency weigh it. All lines stand verbatim, in their order; rows of
tables and logs are left to the archive.

What a line is worth (`importance`): what the user lays down comes first, what the assistant found or promised next, then errors that a tool
reported. Chat, pasted tables and logs, and which tools were called say little about the task: they get what room is left. A tool's result
is foreign text: what it asks for is no decision. Pure functions.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from proxy.context.summaries.facts import (
    CHANGE,
    CONSTRAINT,
    DECISION,
    OUTCOME,
    PREFERENCE,
    TASK,
    TROUBLE,
    KeptFact,
    as_text,
    content_stems,
    literals,
    names,
    open_call_lines,
)
from proxy.context.summaries.lines import SpokenLine, lines_of
from proxy.exchange import Message
from proxy.language.detection import language
from proxy.language.text import fold

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
    return max(decided, rule) + task + figures or _NAME * bool(names(text, german=german))


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


_ROLES = {"user": 1.2, "assistant": 1.0, "call": 0.9, "tool": 0.8, "summary": 1.3}
_FACTS = {"identifier": 3.0, "date": 1.2, "time": 0.5, "number": 0.8}
_NAME_WEIGHT = 0.8
_UNSPOKEN = 0.7
"""Of an identifier's weight that only tool results hold: a search's hits flood the rest."""
_QUERY_WEIGHT = 2.5
_QUESTION = 0.6
"""Of an assistant's question's weight."""
_OLDEST = 0.6
"""Recency of the first message; the last has 1."""
_IMPORTANCE = 2.0
"""Weight of what a line is worth to the task, beside its words and facts."""
_OLDEST_IMPORTANT = 0.9
"""As `_OLDEST`, of important lines: what was laid down first still holds."""
_FRAME_TOKENS = 4
"""Added to a line's length, so that a few short ones do not displace one that says more."""
_DATA = 0.5
"""Of the weight of a table's row, a log's line or code."""
_LABEL_TOKENS = 3
_SAMPLE_CHARS = 3000
_MAX_ROUNDS = 6

# Weights and factors were set on the development trajectories (tau_airline), by the share of identifiers and amounts kept, and
# `_IMPORTANCE` on training/chat_data, by the planted facts kept.


class _Candidate(Struct):
    """A line with what it stands for."""

    line: SpokenLine
    order: int
    features: Mapping[str, float]
    importance: float
    scale: float
    tokens: float


class _UnweightedLine(Struct):
    """A line before its weights are known."""

    line: SpokenLine
    stems: list[str]
    literals: list[KeptFact]
    names: list[str]
    importance: float


def summarise(
    messages: Sequence[Message], *, query: str, max_tokens: int, count: Callable[[str], int], important_only: bool = False
) -> str:
    """Lines of `messages`, each with its speaker, in order; never more than `max_tokens` by `count`; "" where nothing fits.

    System messages are left out. An earlier summary among the messages is taken line by line, as everything else. With
    `important_only` nothing but what the task hangs on.
    """
    lines = lines_of(messages)
    german = language(" ".join(line.text for line in lines if line.kind in ("user", "assistant", "summary"))) == "de"
    asked = set(content_stems(fold(query))) | {fact.text.lower() for fact in literals(query)}
    seen = [item for line in lines if _says(item := _see(line, german), asked)]
    if important_only:
        seen = [item for item in seen if item.importance]
    if max_tokens <= 0 or not seen:
        return ""
    opened = open_call_lines(messages)
    candidates = _candidates(seen, len(messages), asked, _tokens_per_char(seen, count))
    return _fit(candidates, "\n".join(opened), max_tokens, count)


def _see(line: SpokenLine, german: bool) -> _UnweightedLine:
    found = [] if line.kind in ("call", "tool") else names(line.text, german=german)
    return _UnweightedLine(line, content_stems(fold(line.text)), literals(line.text), found, importance(line, german=german))


def _says(item: _UnweightedLine, asked: Collection[str]) -> bool:
    """Whether a line says anything by itself: "Understood." does not, nor a row of a table that the query does not name."""
    if item.importance or (is_row(item.line.text) and any(fact.text.lower() in asked for fact in item.literals)):
        return True
    return not is_row(item.line.text) and bool(item.literals or item.names or len(item.stems) >= MIN_STEMS)


def _tokens_per_char(seen: Sequence[_UnweightedLine], count: Callable[[str], int]) -> float:
    """Measured once, on lines from all over the conversation."""
    step = max(1, sum(len(item.line.text) for item in seen) // _SAMPLE_CHARS)
    sample = "\n".join(item.line.text for item in seen[::step])[: 2 * _SAMPLE_CHARS]
    return max(count(sample), 1) / len(sample)


def _candidates(seen: Sequence[_UnweightedLine], messages: int, asked: Collection[str], tokens_per_char: float) -> list[_Candidate]:
    rarity = _rarity(seen)
    facts = _fact_weights(seen)
    found: dict[tuple[str, str], _Candidate] = {}
    for order, item in enumerate(seen):
        features = {word: rarity[word] * (1 + _QUERY_WEIGHT * (word in asked)) for word in item.stems}
        norm = 1 / math.sqrt(len(features) or 1)
        features = {word: weight * norm for word, weight in features.items()}
        for key in (*(fact.text.lower() for fact in item.literals), *(name.lower() for name in item.names)):
            features[f"={key}"] = facts[key] * (1 + _QUERY_WEIGHT * (key in asked))
        oldest = _OLDEST_IMPORTANT if item.importance else _OLDEST
        recency = oldest + (1 - oldest) * (item.line.message + 1) / messages
        scale = recency * (1 if item.importance else _ROLES[item.line.kind] * _kind(item.line))
        tokens = (len(item.line.text) + 1) * tokens_per_char + _LABEL_TOKENS
        found[item.line.label, item.line.text] = _Candidate(item.line, order, features, item.importance, scale, tokens)
    return list(found.values())  # the last of several equal lines


def _rarity(seen: Sequence[_UnweightedLine]) -> dict[str, float]:
    """For each word 0 to 1: its inverse frequency in lines."""
    lines = Counter(word for item in seen for word in set(item.stems))
    most = math.log(1 + len(seen))
    return {word: math.log(1 + len(seen) / n) / most for word, n in lines.items()} if most else {}


def _fact_weights(seen: Sequence[_UnweightedLine]) -> dict[str, float]:
    """By fact, lower case: its kind's weight, more for those that many messages speak of, less for what only tool results hold."""
    places: dict[str, set[int]] = defaultdict(set)
    spoken: set[str] = set()
    weights: dict[str, float] = {}
    for item in seen:
        mine = [(fact.text.lower(), _FACTS[fact.kind]) for fact in item.literals] + [(n.lower(), _NAME_WEIGHT) for n in item.names]
        for key, weight in mine:
            places[key].add(item.line.message)
            weights[key] = max(weight, weights.get(key, 0.0))
            if item.line.kind != "tool":
                spoken.add(key)
    return {key: w * (1 + 0.5 * math.log(len(places[key]))) * (1 if key in spoken else _UNSPOKEN) for key, w in weights.items()}


def _kind(line: SpokenLine) -> float:
    """A question of the assistant's, or data, says less than a statement."""
    if line.kind == "assistant" and line.text.endswith(("?", "？", ":")):
        return _QUESTION
    return _DATA if is_data(line.text) else 1.0


def _fit(candidates: Sequence[_Candidate], opened: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Pick by estimated tokens, count what was picked, and correct the estimate until it fits closely."""
    fixed = count(opened) if opened else 0
    if fixed > max_tokens:
        opened, fixed = "", 0
    order = _rank(candidates)
    budget, best = float(max_tokens - fixed), opened
    for _ in range(_MAX_ROUNDS):
        picked = _take(order, budget)
        text = _render(picked, opened)
        used = count(text) if text else 0
        if used <= max_tokens:
            best = text if len(text) > len(best) else best
            if len(picked) == len(order) or used >= 0.95 * max_tokens:
                break
        estimated = sum(candidate.tokens for candidate in picked)
        room = estimated * (max_tokens - fixed) / max(1, used - fixed) if estimated else budget * 2
        budget = min(room, budget * 2) if used <= max_tokens else min(room, budget * 0.97)
    return best or _shortest(candidates, max_tokens, count)


def _rank(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """By what each adds per token to those before it; lazily, since what a line adds only falls."""
    covered: set[str] = set()

    def gain(candidate: _Candidate) -> float:
        new = sum(weight for feature, weight in candidate.features.items() if feature not in covered)
        whole = sum(candidate.features.values()) or 1.0
        return candidate.scale * (new + _IMPORTANCE * candidate.importance * new / whole) / (candidate.tokens + _FRAME_TOKENS)

    heap = [(-gain(candidate), candidate.order, candidate) for candidate in candidates]
    heapq.heapify(heap)
    found = []
    while heap:
        _, order, candidate = heapq.heappop(heap)
        now = gain(candidate)
        if heap and now < -heap[0][0]:
            heapq.heappush(heap, (-now, order, candidate))
            continue
        found.append(candidate)
        covered.update(candidate.features)
    return found


def _take(order: Sequence[_Candidate], budget: float) -> list[_Candidate]:
    """The first that fit, in the order of picking."""
    taken = []
    for candidate in order:
        if candidate.tokens <= budget:
            taken.append(candidate)
            budget -= candidate.tokens
    return taken


def _render(picked: Sequence[_Candidate], opened: str) -> str:
    """Neighbours of one speaker share a line."""
    lines: list[str] = []
    last: str | None = None
    for candidate in sorted(picked, key=lambda candidate: candidate.order):
        line = candidate.line
        if last == line.label:
            lines[-1] += f"{' ' if line.label.split(' ')[0] in ('User', 'Assistant') and ' called' not in line.label else '; '}{line.text}"
        else:
            lines.append(as_text(line))
        last = line.label
    return "\n".join([*lines, opened] if opened else lines)


def _shortest(candidates: Sequence[_Candidate], max_tokens: int, count: Callable[[str], int]) -> str:
    """The shortest line on its own, where nothing else fitted."""
    text = _render([min(candidates, key=lambda candidate: (candidate.tokens, candidate.order))], "")
    return text if count(text) <= max_tokens else ""
