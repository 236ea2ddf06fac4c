"""All of a request's context, as evidence for its answer: gathered from the exchange, cut into pieces, searched for each claim.

`gather` takes what the answer may rest on: passages, knowledge, tool results, what the user and the system said, from the request as it
came, so that what compression has left out of the prompt counts too. An assistant's messages are not evidence: an answer must not
support itself. `EvidenceBase` holds the pieces (`proxy.grounding.evidence.pieces`) with their places and finds those that a claim is to be
judged by (`proxy.grounding.evidence.retrieval`). Pure and synchronous: a second for some million characters.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from proxy.context.archive import READ_ARCHIVE
from proxy.context.faithful import LANGUAGES, texts
from proxy.context.passages.blocks import find_blocks
from proxy.context.tool_results.names import may_change
from proxy.exchange import Evidence, Exchange, Message
from proxy.exchange.judgements import EvidenceSpan
from proxy.grounding.evidence.asserted import Author, asks_about_text, asserted
from proxy.grounding.evidence.pieces import blank_own_texts, cut, own_texts, without_own_texts
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS, GAP, Index, TermPositions
from proxy.grounding.evidence.structured import EvidencePiece, is_heading
from proxy.grounding.records.clause import Records
from proxy.grounding.values.stated import StatedValues
from proxy.language.lru import LRU
from proxy.language.text import InOrder, text_of, without
from proxy.offloop import each

if TYPE_CHECKING:
    from proxy.grounding.evidence.retrieval import Similarity

MAX_CHARS = 2_000_000
"""What is read of all evidence: 500,000 tokens, more than most windows. The rest is left out, and `EvidenceBase.truncated` says so."""
MAX_PIECES = 50_000
CACHE_CHARS = 2_000_000
"""Of texts that were cut and stay known, some ten bytes of memory a character: a conversation comes again with every turn."""
ENTRY_CHARS = 200
"""What each of them takes besides."""
MAX_QUESTION_CHARS = 2000
PASTED_CHARS = 500
"""A user message that says so much is so holds the text it asks about, as in "Summarise this: …"."""
EvidenceScope = Literal["", "declared", "pasted", "all"]
"""How much of an answer has to rest on its evidence: all of it, where there are passages, results or a long text; what it says of a few
lines that the user has pasted and asks about; what it says of the little that user and system declare; nothing."""
MIN_LITERAL_WORDS = 3
_WORDS = re.compile(r"\w+(?:[.,:]\d+)*|[-−–+](?=\d)|[%€$£°]")
"""Words, numbers with their marks, signs and units."""
_RULES = tuple(
    sorted(
        {text.strip() for code in LANGUAGES for text in (*texts(code).system_suffixes, *texts(code).user_texts)},
        key=len,
        reverse=True,
    )
)
"""What this project tells a model; clients that use its library send it themselves."""
_ARCHIVE_FRAME = re.compile(r"^\[page \d+ of \d+\]\n|^(?:Error: |There is no such page: |This is not text but ).*", re.S)
"""What the archive's tool says around what was archived."""
_PASSAGE_MARK = re.compile(r"## .{1,200}|### (?:Passage|Pasaje) \d.{0,1000}|(?:Question|Frage|Pregunta):?")


class LocatedEvidence(Evidence, frozen=True):
    """Evidence of which it is known where it stands in its message."""

    message_start: int | None = None
    """Characters of the message's text (`proxy.language.text.text_of`) before the content, where it stands there as it is."""
    apart: tuple[str, ...] = ()
    """Texts within the content that are evidence of their own, or none."""
    place: str = ""
    """``user message 2``: the source of what has no other."""
    outdated: bool = False
    """Whether a call that may have changed what it says was made after it, or the same call again: what that brought is newer."""


class Selection(Struct, frozen=True):
    """What a claim is judged by."""

    positions: tuple[int, ...]
    """Of the pieces, in order."""
    text: str
    """The pieces as one text, at most as long as was asked for; "" where nothing was found."""


def question_of(exchange: Exchange) -> str:
    """The last user message without the passages in it; its end, where it is long."""
    return exchange.once("question", (exchange.conversation, exchange.evidence), partial(_question, exchange))


def _question(exchange: Exchange) -> str:
    for message in reversed(exchange.conversation):
        if message.get("role") == "user":
            text = text_of(message.get("content"))
            blocks = [(block.start, block.start + len(block.content)) for block in find_blocks(text)]
            inside = {text[start:end] for start, end in blocks}
            text = without(text, blocks)
            others = (e.content for e in exchange.evidence if e.kind != "knowledge" and e.content.strip() and e.content not in inside)
            return without(text, InOrder(text).spans(others)).strip()[-MAX_QUESTION_CHARS:]
    return ""


def may_have_context(exchange: Exchange) -> bool:
    """False where `gather` would find neither a passage, nor a tool result, nor a long text of the user's: told without reading any."""
    if exchange.evidence or exchange.passages:
        return True
    sent = () if exchange.messages is exchange.conversation else exchange.messages
    return any(
        message.get("role") in ("tool", "function")
        or (message.get("role") == "user" and len(text_of(message.get("content"))) >= PASTED_CHARS)
        for message in (*exchange.conversation, *sent)
    )


def gather(exchange: Exchange) -> list[Evidence]:
    """All evidence of a request: first the passages, in the order in which the prompt shows them, then the rest in the order it came.

    No text comes twice: what is left of a message around its passages is an evidence of its own.
    """
    given = exchange.conversation, exchange.messages, exchange.passages, exchange.evidence
    return exchange.once("evidence", given, partial(_gather, exchange))


def _gather(exchange: Exchange) -> list[Evidence]:
    messages = exchange.conversation
    said = [text_of(message.get("content")) for message in messages]
    places: dict[int, InOrder] = {}
    found: list[Evidence] = [_locate(evidence, said, places) for evidence in _passages(exchange)]
    inside: dict[int, list[str]] = {}
    for evidence in found:
        if evidence.message_index is not None:
            inside.setdefault(evidence.message_index, []).append(evidence.content)
    names, counted, changed, repeated = _tool_names(messages), Counter[str](), _last_change(messages), _repeated(messages)
    for i, message in enumerate(each(messages)):
        kind = _KINDS.get(str(message.get("role")), "")
        counted[kind] += 1
        place = f"{kind} message {counted[kind]}" if kind in ("user", "system") else ""
        outdated = i < changed or message.get("tool_call_id") in repeated
        found += _without_passages(message, said[i], inside.get(i, ()), i, names=names, place=place, outdated=outdated)
    for message, text in _own_results(exchange):
        found += _without_passages(message, text, (), None, names={str(message.get("tool_call_id")): READ_ARCHIVE})
    return found


def _passages(exchange: Exchange) -> list[Evidence]:
    """The prompt's passages, then those that a stage left out of it, then knowledge; each once, none that is blank."""
    every = (*exchange.passages, *exchange.evidence)
    found: dict[tuple[str, str, int | None], Evidence] = {}
    for evidence in every:
        if evidence.content.strip() and evidence.kind != "assistant":
            found.setdefault((evidence.content, evidence.source, evidence.message_index), evidence)
    return list(found.values())


def _locate(evidence: Evidence, said: Sequence[str], places: dict[int, InOrder]) -> Evidence:
    i = evidence.message_index
    start = -1
    if i is not None and 0 <= i < len(said):
        start = places.setdefault(i, InOrder(said[i])).find(evidence.content)
    if start < 0:
        return evidence
    fields = {name: getattr(evidence, name) for name in Evidence.__struct_fields__}
    return LocatedEvidence(**fields, message_start=start)


def _without_passages(
    message: Message, text: str, inside: Sequence[str], i: int | None, names: Mapping[str, str], place: str = "", *, outdated: bool = False
) -> Iterator[Evidence]:
    """A message without its passages, if it is evidence and anything is left."""
    kind = _KINDS.get(str(message.get("role")))
    said = text.strip()
    if kind is None or not said or any(len(said) <= len(passage) and said == passage.strip() for passage in inside):
        return
    source = str(message.get("name") or names.get(str(message.get("tool_call_id"))) or "") if kind == "tool_result" else ""
    rules = tuple(rule for rule in _RULES if rule in text) if kind in ("user", "system") else ()
    yield LocatedEvidence(
        text, source, kind, i, message_start=None if i is None else 0, apart=(*rules, *inside), place=place, outdated=outdated
    )


_KINDS: Mapping[str, Literal["tool_result", "user", "system"]] = {
    "tool": "tool_result",
    "function": "tool_result",
    "user": "user",
    "system": "system",
    "developer": "system",
}


def _functions(message: Message) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The functions that a message calls, with the calls' ids."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function: Any = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            yield str(call.get("id")), function


def _tool_names(messages: Sequence[Message]) -> dict[str, str]:
    """The tools that were called, by the call's id."""
    return {id: str(function.get("name") or "") for message in messages for id, function in _functions(message)}


def _last_change(messages: Sequence[Message]) -> int:
    """The position of the last message with a call that may have changed something; -1 without one."""
    for i in range(len(messages) - 1, -1, -1):
        if any(may_change(str(called.get("name") or ""), str(called.get("arguments") or "")) for _, called in _functions(messages[i])):
            return i
    return -1


def _repeated(messages: Sequence[Message]) -> set[str]:
    """The ids of calls that were made again later, with the same arguments."""
    last: dict[tuple[str, str], str] = {}
    found = set[str]()
    for message in messages:
        for id, function in _functions(message):
            key = str(function.get("name") or ""), str(function.get("arguments") or "")
            if (before := last.get(key)) not in (None, id):
                found.add(before)
            last[key] = id
    return found


def _own_results(exchange: Exchange) -> Iterator[tuple[Message, str]]:
    """Results of calls of the archive's tool, with what was archived: the proxy has answered them, and they stand behind a call that no
    client can have made. A client's own results with a note of a stage in them are none.
    """
    given = {id(message) for message in (*exchange.original.messages, *exchange.conversation)}
    called: dict[str, str] = {}
    for message in exchange.messages:
        if message.get("role") == "assistant":
            called |= _tool_names([message])
        elif message.get("role") == "tool" and id(message) not in given and called.get(str(message.get("tool_call_id"))) == READ_ARCHIVE:
            yield message, _ARCHIVE_FRAME.sub("", text_of(message.get("content")))


def _with_title(one: Evidence, text: str) -> str:
    """`text` with where it comes from; of what user and system said, who did."""
    title = one.source or (one.kind if one.kind in ("user", "system") else "")
    return f"({title}) {text}" if title else text


def _is_outdated(one: Evidence) -> bool:
    return isinstance(one, LocatedEvidence) and one.outdated


class EvidenceBase:
    """The pieces of all evidence, ready to be searched for many claims. Made in about 0.5 s a million characters."""

    def __init__(self, evidence: Sequence[Evidence], *, max_chars: int = MAX_CHARS, max_pieces: int = MAX_PIECES) -> None:
        self.evidence = tuple(evidence)
        self.truncated = False
        """Whether some of the evidence was left out: more than `max_chars` characters or `max_pieces` pieces."""
        self.chars = 0
        """Characters that were read."""
        self._pieces: list[EvidencePiece] = []
        self._owner: list[int] = []
        self._headings: list[int] = []
        parts = []
        for i, one in enumerate(each(self.evidence)):
            content = one.content[: max_chars - self.chars]
            self.truncated |= len(content) < len(one.content)
            self.chars += len(content)
            if len(self._pieces) <= max_pieces:
                parts.append(self._add(i, _read_once(one, content)))
        if len(self._pieces) > max_pieces:
            self.truncated = True
            del self._pieces[max_pieces:], self._owner[max_pieces:], self._headings[max_pieces:], parts[:]
        self.sentences = [piece.shown for piece in self._pieces]
        """What each piece says, at the position by which searches name it."""
        repeated = _repetitions(self.sentences)
        self.distinct = len(self.sentences) - len(repeated)
        """Pieces that do not repeat an earlier one."""
        self._index = Index(self.sentences, leave_out=repeated, parts=parts, gap_chars=1)

    def _add(self, owner: int, text: ReadText) -> TermPositions:
        """Its pieces; returns where their terms are."""
        first = len(self._pieces)
        self._headings += [first + heading if heading >= 0 else -1 for heading in text.headings]
        self._owner += [owner] * len(text.pieces)
        self._pieces += text.pieces
        return text.terms

    def __len__(self) -> int:
        return len(self.sentences)

    @cached_property
    def stated(self) -> StatedValues:
        """All of it, to look values up in; the user's questions, too."""
        return StatedValues([without_own_texts(one.content) for one in self.evidence])

    @cached_property
    def records(self) -> Records:
        """The tables of each evidence, in which what the proxy wrote is blank."""
        return Records([blank_own_texts(one.content) for one in self.evidence], [_is_outdated(one) for one in self.evidence])

    def is_outdated(self, position: int) -> bool:
        """Whether what a piece says may have been changed by a call that came after it."""
        return _is_outdated(self.evidence[self._owner[position]])

    @cached_property
    def material(self) -> list[str]:
        """Without what user and system said: of an empty result only the result itself tells."""
        return [one.content for one in self.evidence if one.kind not in ("user", "system")]

    def literal(self, claim: str) -> int | None:
        """The position of the piece that says `claim` word by word, and nothing else; None for a claim of less than three words."""
        words = _WORDS.findall(claim.casefold())
        if len(words) < MIN_LITERAL_WORDS:
            return None
        rare = max(words, key=len)  # a look for it costs a tenth of what it takes to cut a piece into words
        there = (i for i, sentence in enumerate(self._folded) if rare in sentence and _WORDS.findall(sentence) == words)
        return next(there, None)

    @cached_property
    def _folded(self) -> list[str]:
        return [sentence.casefold() for sentence in self.sentences]

    def position_of(self, evidence: int, offset: int) -> int | None:
        """The position of the piece of an evidence in which a character stands, or of the one before."""
        first, last = bisect_left(self._owner, evidence), bisect_right(self._owner, evidence)
        before = [i for i in range(first, last) if self._pieces[i].start <= offset]
        return before[-1] if before else first if first < last else None

    def span(self, position: int) -> EvidenceSpan:
        """Where a piece stands: the text as it is there, with its offsets."""
        piece, one = self._pieces[position], self.evidence[self._owner[position]]
        text = one.content[piece.start : piece.end]
        begins = one.message_start if isinstance(one, LocatedEvidence) else None
        placed = None if begins is None else begins + piece.start
        source = one.source or (one.place if isinstance(one, LocatedEvidence) else "")
        return EvidenceSpan(text, piece.start, piece.end, source, one.kind, one.message_index, placed, piece.opinion)

    def search(self, claim: str, similarity: Similarity | None = None, budget_chars: int = EVIDENCE_CHARS) -> Selection:
        """What to judge `claim` by, at most `budget_chars` characters; `similarity` is its cosine with each piece, if known."""
        chosen = self._index.ranked(claim, similarity, budget_chars)
        chosen += self._headings_of(chosen, budget_chars)
        while chosen and len(text := self.text(chosen)) > budget_chars:
            chosen.pop()
        return Selection(tuple(sorted(chosen)), text if chosen else "")

    def _headings_of(self, chosen: Sequence[int], budget_chars: int) -> list[int]:
        """The headings that chosen pieces stand under, as far as there is room."""
        left = budget_chars - len(self.text(chosen))
        found: list[int] = []
        for i in chosen:
            heading = self._headings[i]
            if heading >= 0 and heading not in chosen and heading not in found:
                left -= len(self.sentences[heading]) + len(GAP)
                if left < 0:
                    break
                found.append(heading)
        return found

    def text(self, positions: Sequence[int]) -> str:
        """The pieces at `positions` as one text, in their order in the evidence, gaps marked."""
        return self._index.joined(sorted(positions))

    def numbered(self, claim: str, budget_chars: int) -> tuple[str, ...]:
        """What somebody who can read is to judge `claim` by: all evidence where there is no more than `budget_chars` characters of it, else
        what says most to it. A text for each piece of evidence, its lines in order.
        """
        whole = sum(map(len, self.sentences)) <= budget_chars
        positions = range(len(self)) if whole else self.search(claim, budget_chars=budget_chars).positions
        parts: dict[int, list[str]] = {}
        for i in positions:
            parts.setdefault(self._owner[i], []).append(self.sentences[i].strip())
        return tuple(_with_title(self.evidence[owner], "\n".join(lines)) for owner, lines in parts.items())

    def coverage(self, claim: str, positions: Sequence[int]) -> float:
        """The share of the claim's terms, weighted by how rare they are, that the pieces at `positions` have, 0 to 1."""
        return self._index.coverage(claim, positions)

    def by_terms(self, claim: str, positions: Sequence[int], similarity: Similarity | None = None) -> list[int]:
        """`positions`, the piece that says most to the claim first."""
        scores = self._index.closeness(claim, similarity)
        return sorted(positions, key=lambda i: (-round(float(scores[i]), 9), i))

    def scope(self, question: str) -> EvidenceScope:
        """How much of the answer to `question` has to rest on it."""
        if any(one.kind in ("passage", "tool_result") and one.content.strip() for one in self.evidence):
            return "all"
        found: EvidenceScope = ""
        user_chars: Counter[int] = Counter()
        about_text = asks_about_text(question)
        for piece, owner in zip(each(self._pieces), self._owner, strict=True):
            kind = self.evidence[owner].kind
            if kind not in ("user", "system"):
                continue
            found = found or "declared"
            if kind == "user":
                user_chars[owner] += len(piece.shown)
                if piece.pasted and about_text:
                    found = "pasted"
        return "all" if max(user_chars.values(), default=0) >= PASTED_CHARS else found

    def candidates(self, claim: str, most: int) -> list[int]:
        """The positions that have most of the claim's terms and the ones beside them, in order: at most three times `most`."""
        best = self._index.nearest(claim, most)
        near = {i + step for i in best for step in (-1, 0, 1)}
        return sorted(i for i in near if 0 <= i < len(self))


class ReadText(Struct, frozen=True):
    """A text of the context, cut once for all the turns that come with it."""

    pieces: tuple[EvidencePiece, ...]
    headings: tuple[int, ...]
    """For each piece the position of the heading that it stands under, -1 where it stands under none."""
    terms: TermPositions
    chars: int
    """What it takes of the room that there is for such texts."""


_texts: LRU[ReadText] = LRU(CACHE_CHARS, lambda text: text.chars)


def _read_once(evidence: Evidence, content: str) -> ReadText:
    """What an evidence says: as it was read before, if it was."""
    apart = evidence.apart if isinstance(evidence, LocatedEvidence) else ()
    author: Author | None = evidence.kind if evidence.kind == "user" or evidence.kind == "system" else None
    key = (content, author, apart)
    found = _texts.get(key)
    if found is None:
        pieces = _stating_pieces(content, apart, author)
        positions = TermPositions([piece.shown for piece in pieces])
        found = ReadText(pieces, tuple(_headings(pieces)), positions, len(content) + ENTRY_CHARS)
        _texts.put(key, found)
    return found


def _stating_pieces(content: str, apart: tuple[str, ...], author: Author | None) -> tuple[EvidencePiece, ...]:
    """The pieces of a text that say something: of a user or the system what they say is so, no marks of passages that are evidence
    themselves.
    """
    apart = (*apart, *own_texts(content))
    pieces = cut(content, apart)
    if author is not None:
        pieces = list(asserted(content, pieces, author))
    if apart:
        pieces = [piece for piece in pieces if not _PASSAGE_MARK.fullmatch(piece.shown)]
    return tuple(pieces)


def _headings(pieces: Sequence[EvidencePiece]) -> Iterator[int]:
    heading = -1
    for i, piece in enumerate(pieces):
        is_one = is_heading(piece.shown)
        yield -1 if is_one else heading
        heading = i if is_one else heading


def _repetitions(sentences: Sequence[str]) -> list[int]:
    """The positions of sentences that an earlier one repeats word by word."""
    first: dict[str, int] = {}
    return [i for i, sentence in enumerate(sentences) if first.setdefault(sentence, i) != i]
