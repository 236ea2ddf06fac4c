"""An answer -> its claims: what of it can be checked, where it stands, and in words that can be understood by themselves.

In: an answer's sentences as `proxy.language.text.SentenceSplitter` cuts them, one after the other, so that the gate can ask for the claims
of each while the next streams; or a whole text. Out: `Claim`s whose spans lie in the text, in order, without overlap. Atomic claims after
FActScore (Min et al. 2023), but by rule and cautious: a sentence is cut only at a semicolon or between main clauses that each have a
subject and a verb. Each part's span is its own part of the sentence; what may be taken out of a sentence, `redaction` decides.

`read_content` reads new content once for all stages that check it: in JSON each string of several words is a text with statements of its
own, and an object's other values are one statement of the object (``city: Graz; temperature: 21``). Such values differ from a fact's
in many harmless ways (an id, a price, a unit), so only a contradiction counts against them: see `VALUES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange.judgements import Claim
from proxy.grounding.claims.checkable import conceded, has_verb, is_fragment, is_unfinished, is_yes_or_no, line_marks, plain, reason_of
from proxy.grounding.claims.totals import Totals, has_amount, sums_of
from proxy.grounding.evidence.json_pieces import places
from proxy.grounding.evidence.pieces import cut
from proxy.grounding.values.calculation import calculation
from proxy.language.detection import language
from proxy.language.json.strings import JsonString, strings_of
from proxy.language.lru import LRU
from proxy.language.patterns import phrases
from proxy.language.text import remembered, split_sentences

_TEXTS = phrases(Path(__file__).parent)
_SUBORDINATORS = frozenset(_TEXTS.SUBORDINATORS)
MAX_QUESTION_CHARS = 300
"""A longer question is not read beside a fragment answer; its last interrogative sentence is, if that is shorter."""
MAX_LEAD_CHARS = 300
"""A list's lead-in that is longer does not go before its items."""
MAX_ITEM_WORDS = 12
"""A list item without a verb is a fragment up to this length."""
MAX_TOPIC_WORDS = 6
_CODE_INDENT = 4
_FENCE = re.compile(r"[> \t]{0,12}(`{3,40}|~{3,40})([^`\n]{0,200})$")
_PIPE = re.compile(r"(?<!\\)\|")
_SEPARATOR = re.compile(r"\|?[ \t]{0,99}:?-{2,99}:?[ \t]{0,99}(?:\|[ \t]{0,99}:?-{1,99}:?[ \t]{0,99}){0,99}\|?")
_ITEM = re.compile(r"(?:[ \t]{0,8}>){0,5}[ \t]{0,40}(?:[-*+•–‣◦]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]")
_HEADING = re.compile(r"#{1,6}[ \t]|(?:\*\*|__)[^*\n]{1,120}?:?(?:\*\*|__):?$")
_RULE = re.compile(r"(?:[-*_][ \t]?){3,99}$|={3,99}$")
_SEMICOLON = re.compile(r";[ \t]+(?=\S)")
_NO_VALUE = frozenset(("", "-", "–", "—", "n/a", "k. a.", "k.a."))
_CAPITALISED_WORDS = r"[A-ZÄÖÜÉÀÁÍÓÚÑ]\w{1,30}(?: [A-ZÄÖÜÉÀÁÍÓÚÑ]\w{1,30}){0,3}"
_SUBJECT = (
    rf"(?:(?i:{'|'.join(_TEXTS.PRONOUNS)})\b"
    rf"|(?i:{'|'.join(_TEXTS.DETERMINERS)}) [\w'-]{{1,30}}(?: [\w'-]{{1,30}}){{0,2}}|{_CAPITALISED_WORDS})"
)
_CONJUNCTION = r"(?:and|but|und|aber|sondern|y|pero|et|mais)"
_COORDINATED_CLAUSE = re.compile(rf",[ \t](?={_CONJUNCTION} (?P<clause>{_SUBJECT} (?P<verb>[\w'’]{{1,20}})))")
_PRONOUN_CLAUSE = re.compile(
    r"[ \t](?=(?:and|but|und|aber|et|mais) (?P<clause>(?i:it|he|she|they|er|es|il|elle|ils|elles) (?P<verb>[\w'’]{1,20})))"
)
_LEADING = re.compile(rf"\A(?:[\s,;]|(?:{_CONJUNCTION}) )+", re.I)
_REPORTED_SPEECH = re.compile(_TEXTS.REPORTED, re.I)
_PRONOUN = re.compile(rf"(?:{'|'.join(_TEXTS.PRONOUNS)})\b", re.I)
_ANAPHOR = re.compile(rf"(?:{'|'.join(_TEXTS.ANAPHORS)})\b", re.I)
_FIELD = re.compile(r"[^:]{1,40}: \S")
"""A label with a value."""
_QUOTES = {"“": "”", "„": "“", "«": "»", "(": ")", "[": "]", "{": "}"}


class ClaimReader:
    """The claims of one choice, sentence by sentence."""

    def __init__(self, question: str = "") -> None:
        self._question = _answered_question(question)
        self._fence = ""
        """The marks that opened the code block we are in."""
        self._line_start = True
        self._indent = ""
        """White space before this line, which the splitter leaves at the end of the sentence before."""
        self._blank = True
        self._code = False
        self._table: list[str] | None = None
        """Cells of the first row of the table we are in."""
        self._separated = False
        """Whether its separator row has come."""
        self._rows: list[list[str]] = []
        """Those behind it so far."""
        self._leads: list[tuple[int, str]] = []
        """Lead-ins with their indents, outermost first: -1 for a paragraph or heading before the list."""
        self._in_list = False
        self._before = ""
        """What was stated last without a pronoun for its subject."""
        self._totals = Totals()

    def read(self, sentence: str, offset: int) -> list[Claim]:
        """The claims of the next sentence, which `offset` characters of the choice's text precede."""
        body = sentence.strip()
        head = sentence[: len(sentence) - len(sentence.lstrip())]
        starts_line = self._line_start
        indent = _width(self._indent + head) if starts_line else 0
        self._line_start = starts_line and not body
        found = self._of_line(body, offset + len(head), indent, starts_line) if body else []
        self._after(sentence, body)
        return found

    def _after(self, sentence: str, body: str) -> None:
        tail = sentence[len(sentence.rstrip()) :]
        if "\n" in tail:
            self._blank = tail.count("\n") > 1 or (not body and (self._blank or self._line_start))
            self._line_start, self._indent = True, tail[tail.rfind("\n") + 1 :]
        elif not body and self._line_start:
            self._indent += tail

    def _of_line(self, body: str, start: int, indent: int, starts_line: bool) -> list[Claim]:
        end = start + len(body)
        if self._is_code(body, indent, starts_line):
            self._table, self._before = None, ""
            return [Claim(body, start, end, checkable=False, reason="code")]
        if starts_line and self._blank:
            self._table = None
        if not starts_line and has_amount(body):
            self._totals.spoil()
        if starts_line and (row := _cells(body, self._table is not None)) is not None:
            return self._row(row, body, start)
        if starts_line:
            self._table = None
            if _RULE.match(body):
                return [Claim(body, start, end, checkable=False, reason="empty")]
            marks = line_marks(body)
            item = marks > 0 and _ITEM.match(body) is not None
            text = plain(body[marks:])
            sum_said = self._totals.line(text, indent, item=item)
            if sum_said and (found := calculation(sum_said)) is not None and not found.right:
                return [Claim(text, start, end, wrong_sum=sum_said)]
            if _HEADING.match(body):
                self._leads, self._in_list, self._before = [(-1, _as_lead_in(text))], False, ""
                return [Claim(text, start, end, checkable=False, reason="heading")]
        return self._prose(body, start, indent, starts_line)

    def _is_code(self, body: str, indent: int, starts_line: bool) -> bool:
        fence = _FENCE.match(body) if starts_line else None
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
            return True
        if fence:
            self._fence, self._code = fence[1], False
            return True
        if starts_line:
            self._code = indent >= _CODE_INDENT and (self._blank or self._code) and not self._in_list and not _ITEM.match(body)
        return self._code

    # ---- tables ----

    def _row(self, row: list[str], body: str, start: int) -> list[Claim]:
        """A row with its columns' names; the first row and the separator are no claims."""
        self._leads, self._in_list, self._before = [], False, ""
        if self._table is None:
            self._table, self._separated, self._rows = row, False, []
            return []
        if _SEPARATOR.fullmatch(body):
            self._separated = True
            return []
        names = self._table if self._separated else []
        cells = [(names[i] if i < len(names) else "", cell) for i, cell in enumerate(row) if cell.lower() not in _NO_VALUE]
        text = "; ".join(f"{name}: {cell}" if name else cell for name, cell in cells)
        checkable = any(c.isalnum() for _, cell in cells for c in cell)
        sums = map(calculation, sums_of(names, self._rows, row))
        wrong = next((found.text for found in sums if found is not None and not found.right), "")
        self._rows.append(row)
        return [Claim(text, start, start + len(body), checkable=checkable, reason="" if checkable else "empty", wrong_sum=wrong)]

    # ---- lists and paragraphs ----

    def _prose(self, body: str, start: int, indent: int, starts_line: bool) -> list[Claim]:
        item = starts_line and _ITEM.match(body) is not None and line_marks(body) > 0
        marks = line_marks(body) if starts_line else 0
        self._enter(indent, item, starts_line)
        lead = " ".join(text for _, text in self._leads) if item else ""
        claims = self._claims(body, marks, start, lead, item)
        text = plain(body[marks:]) if ":" in body else ""
        if text.endswith(":") and len(text) <= MAX_LEAD_CHARS:
            self._leads = [*self._leads, (indent, _as_lead_in(text))][-4:] if item else [(-1, _as_lead_in(text))]
        return claims

    def _enter(self, indent: int, item: bool, starts_line: bool) -> None:
        """Forget the lead-ins that this line does not stand under."""
        if item:
            self._before = ""
            self._leads = [(at, text) for at, text in self._leads if at < indent]
            self._in_list = True
        elif starts_line and (not self._in_list or indent == 0):
            self._leads, self._in_list = [], False

    def _claims(self, body: str, marks: int, start: int, lead: str, item: bool) -> list[Claim]:
        cuts = parts(body[marks:])
        found = []
        for i, (a, b) in enumerate(cuts):
            a, b = (a + marks if i else 0), b + marks
            raw = body[marks if not i else a : b]
            text = _tidy(plain(raw), cut=len(cuts) > 1, first=not i)
            before = self._before if _ANAPHOR.match(text) else ""
            if not before:
                self._before = text
            if i:
                text = _with_topic(text, plain(body[marks : cuts[0][1] + marks]))
            claim = self._claim(raw, text, start + a, start + b, lead, item)
            if item and lead and _FIELD.match(claim.text) and not claim.text.startswith(lead):
                before = lead
            found.append(replace(claim, before=before))
        return found

    def _claim(self, raw: str, text: str, start: int, end: int, lead: str, item: bool) -> Claim:
        text = conceded(text)
        reason = reason_of(raw, text)
        if reason == "instruction" and item:
            reason = ""  # a step
        if not reason and is_yes_or_no(text) and not self._question:
            reason = "empty"
        if not reason and item and lead and (is_fragment(text, MAX_ITEM_WORDS) or is_unfinished(lead)):
            text = f"{lead} {text}"
        elif not reason and self._question and is_fragment(text) and not text.endswith(":"):
            return Claim(text, start, end, asked=self._question)
        return Claim(text, start, end, checkable=not reason, reason=reason)


def claims_of(text: str, question: str = "", most: int | None = None) -> list[Claim]:
    """The claims of a whole answer. Where there are more than `most`, what stands behind one more is a last one that is not read."""
    reader, offset, found = ClaimReader(question), 0, list[Claim]()
    for sentence in split_sentences(text):
        if most is not None and len(found) > most and sentence.strip():
            return [*found, Claim("", offset, len(text.rstrip()), checkable=False, reason="unread")]
        found += reader.read(sentence, offset)
        offset += len(sentence)
    return found


@remembered
def parts(sentence: str) -> tuple[tuple[int, int], ...]:
    """Spans of the main clauses of a sentence, which touch but for white space; one span where it is safer left whole.

    Without a subject or a verb on either side, in brackets or quotes, under "if" or "said that", it is not cut.
    """
    first = sentence.split(maxsplit=1)[0].lower().strip("*_\"'“„,") if sentence.strip() else ""
    if first in _SUBORDINATORS:
        return ((0, len(sentence)),)
    cuts, begin = [], 0
    closed = _outside(sentence)
    for at, strict in _joints(sentence):
        left, right = sentence[begin:at], sentence[at:]
        if not closed[at] or len(left.split()) < 3 or len(right.split()) < 3 or not has_verb(left):
            continue
        if _REPORTED_SPEECH.search(left) and not left.rstrip().endswith(";"):
            continue
        if strict or has_verb(right.split(";")[0]):
            cuts.append(at)
            begin = at
    edges = [0, *cuts, len(sentence)]
    return tuple((a, a + len(sentence[a:b].rstrip())) for a, b in pairwise(edges))


def _joints(sentence: str) -> list[tuple[int, bool]]:
    """Where a clause may start, and whether its verb has been seen."""
    found = {match.end(): False for match in _SEMICOLON.finditer(sentence)}
    for pattern in (_COORDINATED_CLAUSE, _PRONOUN_CLAUSE):
        for match in pattern.finditer(sentence):
            if has_verb("x " + match["clause"]):
                found[match.end()] = True
    return sorted(found.items())


def _outside(sentence: str) -> list[bool]:
    """For each position: whether it stands outside brackets, quotes and code."""
    out: list[bool] = []
    closers: list[str] = []
    straight = code = False
    for c in sentence:
        if closers and c == closers[-1]:
            closers.pop()
        elif c in _QUOTES:
            closers.append(_QUOTES[c])
        straight ^= c == '"'
        code ^= c == "`"
        out.append(not closers and not straight and not code)
    return out


def _tidy(text: str, *, cut: bool, first: bool) -> str:
    """A part as a sentence of its own."""
    if not cut:
        return text
    text = text if first else _LEADING.sub("", text, count=1)
    text = text.rstrip(" ,;")
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", ":", "…", '"', "”", "»")) else ".")


def _with_topic(text: str, before: str) -> str:
    """The first clause's subject in front, as a topic, where this one has only a pronoun: what it means is the verifier's to see."""
    if not _PRONOUN.match(text) or _PRONOUN.match(before):
        return text
    words = before.split()
    for i in range(1, min(MAX_TOPIC_WORDS, len(words) - 1) + 1):
        if has_verb("x " + words[i]):
            return f"{' '.join(words[:i])}: {text}"
    return text


def _cells(body: str, in_table: bool) -> list[str] | None:
    """A table row's cells; None for any other line."""
    marked = body.startswith("|") or (in_table and "|" in body and _SEPARATOR.fullmatch(body) is not None)
    if not marked and (" | " not in body or "`" in body or (not in_table and body.rstrip("|")[-1:] in ".!?:")):
        return None
    inner = body.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    cells = [plain(cell.replace("\\|", "|")) for cell in _PIPE.split(inner)]
    return cells if len(cells) > 1 or (body.startswith("|") and body.endswith("|") and len(body) > 2) else None


def _as_lead_in(text: str) -> str:
    return f"{text.rstrip(' :')}:"


def _width(indent: str) -> int:
    return len(indent[indent.rfind("\n") + 1 :].expandtabs(_CODE_INDENT))


def _answered_question(question: str) -> str:
    """What a fragment answer answers: the question, or the last interrogative sentence of a longer one."""
    whole = " ".join(question.split())
    if len(whole) <= MAX_QUESTION_CHARS:
        return whole
    asked: Sequence[str] = [s.strip() for s in split_sentences(question[-20_000:]) if s.rstrip().endswith("?")]
    return asked[-1] if asked and len(asked[-1]) <= MAX_QUESTION_CHARS else ""


# ---- new content ----


VALUES = "values"
"""`Claim.reason` of an object's plain values."""
TEXT_WORDS = 4
"""A JSON string with as many words is a text, a shorter one a value."""
CACHE_CHARS = 1_000_000
"""Of texts whose statements are remembered."""


class ReadContent(Struct, frozen=True):
    """What a text states."""

    claims: tuple[Claim, ...]
    """Checkable ones, in order."""
    language: str
    """ISO 639-1; "" of a text that states nothing."""
    chars: int
    """Of the text."""

    @property
    def sentences(self) -> list[str]:
        """What is stated in words, each once."""
        return list(dict.fromkeys(claim.text for claim in self.claims if claim.reason != VALUES))


_cache: LRU[ReadContent] = LRU(CACHE_CHARS, lambda read: read.chars)


def read_content(text: str) -> ReadContent:
    """What `text` states: some 10 ms for 20,000 characters, nothing for one that was just read."""
    read = _cache.get(text)
    if read is None:
        claims = _of_json(text) if text.lstrip()[:1] in ("{", "[") else None
        if claims is None:
            claims = tuple(claim for claim in claims_of(text) if claim.checkable)
        read = ReadContent(claims, language(text) if claims else "", len(text))
        _cache.put(text, read)
    return read


def _of_json(text: str) -> tuple[Claim, ...] | None:
    """None for a text that is no JSON. JSON lines are read by their objects alone."""
    strings = [string for string in strings_of(text) or () if len(string.value.split()) >= TEXT_WORDS]
    pieces = cut(text, [string.value for string in strings])
    if not strings and (not pieces or all(piece.prose for piece in pieces)):
        return None
    values = [Claim(piece.shown, piece.start, piece.end, reason=VALUES) for piece in pieces]
    return tuple(sorted([*_sentences(text, strings), *values], key=lambda claim: claim.start))


def _sentences(text: str, strings: Sequence[JsonString]) -> Iterator[Claim]:
    """The statements of JSON strings, with their places in the literals as they are written."""
    for string in strings:
        place = places(text[string.start : string.end])
        for claim in claims_of(string.value):
            if claim.checkable:
                yield replace(claim, start=string.start + place(claim.start), end=string.start + place(claim.end))
