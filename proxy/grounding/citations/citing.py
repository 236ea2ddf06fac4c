"""Which sentence of an answer cites what.

In: an answer's sentences as `proxy.language.text.SentenceSplitter` cuts them, one after the other, so that the gate can ask for each while
the next streams. Out: `CitedStatement`s, each a sentence (or list item, row) with its claims and its citations, in every form that
`proxy.context.faithful.extract_citations` reads. A citation behind the full stop, or alone on the next line, belongs to the sentence
before; one in a list's lead-in covers the items; one in a list of references, or in code, belongs to no sentence. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec.structs import replace

from proxy.context.faithful import extract_citations
from proxy.exchange.judgements import Claim
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.written_forms import Citation, link_targets, links
from proxy.grounding.claims.claims import ClaimReader
from proxy.language.text import split_sentences

_ITEM = re.compile(r"\s*(?:[>\s]{0,10})(?:[-*+•–]|\(?\d{1,3}[.)])\s")
_LINE_START = re.compile(r"\s*(?:[>\s]{0,10})(?:[-*+•–|]\s|\(?\d{1,3}[.)]\s)")
_REFERENCES = re.compile(
    r"\W{0,10}(?P<word>sources|references|citations|cited passages|works cited|bibliography|quellen(?:angaben|verzeichnis)?|belege"
    r"|referenzen|literatur(?:verzeichnis)?|fuentes|referencias|citas|bibliografía|références|bibliographie)\W{0,10}",
    re.I,
)
_SOURCE_LABEL = re.compile(r"\W{0,10}(?:source|reference|citation|quelle|beleg|fuente|referencia|référence)\W{0,10}", re.I)
_SEE = re.compile(r"\W{0,10}(?:see(?: also)?|cf|compare|siehe(?: auch)?|vgl|véase(?: también)?|voir(?: aussi)?)\W{0,10}", re.I)
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)*_]{0,8}\s*$")
_OPEN = re.compile(r"[\[【][^\[\]【】\n]{0,500}$")


@dataclass(slots=True)
class CitedStatement:
    """A sentence, list item or row of an answer."""

    start: int
    end: int
    claims: tuple[Claim, ...] = ()
    """Its checkable claims; empty for what states nothing, and for a list of references."""
    citations: list[Citation] = field(default_factory=list)
    covers: list[CitedStatement] = field(default_factory=list)
    """Of a list's lead-in: the items."""
    lead: CitedStatement | None = None
    """The lead-in above it, if that has citations."""
    orphan: bool = False
    """Whether it is but a citation whose sentence is not there any more."""

    @property
    def cited(self) -> list[Citation]:
        """Its own citations, or else those of the lead-in above it."""
        return self.citations or (self.lead.citations if self.lead is not None else [])

    @property
    def needs_citation(self) -> bool:
        """Whether it states something; a lead-in leaves that to its items."""
        return bool(self.claims) and not self.covers


class CitationReader:
    """The statements of one choice, sentence by sentence."""

    def __init__(
        self,
        question: str = "",
        *,
        numbered: bool = False,
        sources: Citable | None = None,
        targets: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`numbered`: whether a bare ``[1]`` cites a passage, as where the prompt has passages; `sources`: what links may
        mean, where they are read; `targets`: addresses of links by their label, where the whole answer is known.
        """
        self.statements: list[CitedStatement] = []
        self._claims = ClaimReader(question)
        self._numbered, self._sources, self._targets = numbered, sources, targets
        self._index = -1
        self._open = ""
        """The end of the sentence before, where it may be the beginning of a mark."""
        self._line_ended = True
        self._last: CitedStatement | None = None
        """The statement that a citation behind its full stop belongs to."""
        self._leading = False
        """Whether the answer puts citations before their sentences."""
        self._behind_stop: list[Citation] = []
        """Citations of the sentence before that stand behind its full stop, and may turn out to belong to the next."""
        self._lead_in: CitedStatement | None = None
        self._in_item = False
        self._references = False

    def read(self, text: str, offset: int, index: int) -> list[CitedStatement]:
        """The statements that sentence number `index` adds or that get citations from it; `offset` characters precede it.

        A gap in the numbers is a sentence that is not there any more: what follows it has no sentence before it.
        """
        if index != self._index + 1:
            self._last, self._open, self._behind_stop = None, "", []
        self._index = index
        claims = self._claims.read(text, offset)
        marks = [] if claims and all(claim.reason == "code" for claim in claims) else self._marks(text, offset)
        touched = self._of_sentence(text, offset, claims, marks)
        self._line_ended = self._ends_line(text) if text.strip() else self._line_ended or "\n" in text
        return touched

    @property
    def unsettled(self) -> list[Citation]:
        """Citations read last that are likely to belong to the sentence that is still to come."""
        return self._behind_stop if self._leading else []

    @staticmethod
    def _ends_line(text: str) -> bool:
        return "\n" in text[len(text.rstrip()) :]

    def _marks(self, text: str, offset: int) -> list[Citation]:
        before, text = len(self._open), self._open + text
        if not ("[" in text or "【" in text):
            self._open = ""
            return []
        still = _OPEN.search(text)
        self._open = still[0] if still else ""
        at = offset - before
        linked = links(text, self._targets)
        found = [
            Citation(at + c["span"][0], at + c["span"][1], c["type"], c.get("number"), c.get("source") or c.get("reference") or "")
            for c in extract_citations(text, numbered=self._numbered)
            if c["span"][1] > before and not any(link.start <= c["span"][0] < link.end for link in linked)
        ]
        if self._sources is not None:
            more = [link for link in linked if self._sources.knows(link)]
            found += [replace(c, start=at + c.start, end=at + c.end) for c in more if c.end > before]
            found.sort(key=lambda citation: citation.start)
        return found

    def _of_sentence(self, text: str, offset: int, claims: Sequence[Claim], marks: Sequence[Citation]) -> list[CitedStatement]:
        said = bare(text, [(mark.start - offset, mark.end - offset) for mark in marks])
        if not text.strip():
            return []
        if self._is_reference(text, said, marks):
            return self._add(CitedStatement(offset, offset + len(text.rstrip()), (), list(marks))) if marks else []
        if not any(c.isalnum() for c in said) or (_SOURCE_LABEL.fullmatch(said) and marks):
            return self._behind(marks, offset, text)
        claims = () if _SEE.fullmatch(said) else claims
        own = self._belonging_citations(text) + list(marks)
        touched: list[CitedStatement] = []
        if behind := [] if own[: len(own) - len(marks)] else self._trailing(text, offset, marks):
            own = own[len(behind) :]
            touched = self._behind(behind, offset, text)
        elif marks and self._last is None and not self.statements and marks[0].start - offset <= len(text) - len(text.lstrip()):
            self._leading = True
        self._behind_stop = _after_stop(text, offset, marks)
        return touched + self._statements(text, offset, said, claims, own)

    def _belonging_citations(self, text: str) -> list[Citation]:
        """The citations behind the last full stop that belong to this sentence: it goes on in lower case ("[Passage 2] adds that …"), or
        the answer cites first.
        """
        marks, self._behind_stop = self._behind_stop, []
        if not marks or self._line_ended or self._last is None or not (self._leading or text.lstrip()[:1].islower()):
            return []
        self._last.citations = [mark for mark in self._last.citations if mark not in marks]
        return marks

    def _statements(self, text: str, offset: int, said: str, claims: Sequence[Claim], own: list[Citation]) -> list[CitedStatement]:
        """The sentence itself, and what it has to do with a list."""
        start = offset + len(text) - len(text.lstrip())
        said_claims = tuple(claim for claim in claims if claim.checkable)
        statement = CitedStatement(start, offset + len(text.rstrip()), said_claims, own)
        starts_line = self._line_ended
        item = bool(starts_line and _LINE_START.match(text)) or (not starts_line and self._in_item)
        if item and self._lead_in is not None:
            self._lead_in.covers.append(statement)
            statement.lead = self._lead_in if self._lead_in.citations else None
        elif not item:
            self._lead_in = None
        self._in_item = item
        if said.rstrip(" \t\n*_").endswith(":"):
            self._lead_in, self._in_item = statement, False
        return self._add(statement)

    def _add(self, statement: CitedStatement) -> list[CitedStatement]:
        self.statements.append(statement)
        self._last = statement
        return [statement]

    def _is_reference(self, text: str, said: str, marks: Sequence[Citation]) -> bool:
        """Whether the sentence belongs to a list of references; sees where one begins and ends."""
        if _REFERENCES.fullmatch(said) or ((match := _REFERENCES.match(said)) and marks and match[0].rstrip(" *_").endswith(":")):
            self._references = True
        elif self._references and not marks and not _ITEM.match(text) and len(said.split()) > 3:
            self._references = False
        return self._references

    def _trailing(self, text: str, offset: int, marks: Sequence[Citation]) -> list[Citation]:
        """The citations at the start of `text` that belong to the sentence before it: on its line, before a new sentence."""
        if self._line_ended or self._leading or _LINE_START.match(text):
            return []
        found: list[Citation] = []
        at = offset
        for mark in marks:
            if text[at - offset : mark.start - offset].strip(" \t,;.") and mark.end != at:
                break
            found.append(mark)
            at = max(at, mark.end)
        rest = text[at - offset :].lstrip(" \t,;.")
        return [] if rest[:1].islower() else found

    def _behind(self, marks: Sequence[Citation], offset: int, text: str) -> list[CitedStatement]:
        """Citations of the sentence before; of none, where there is none."""
        if not marks:
            return []
        if self._last is None:
            self.statements.append(CitedStatement(offset, offset + len(text), (), list(marks), orphan=bool(self._index)))
            return [self.statements[-1]]
        self._last.citations += marks
        return [self._last]


def _after_stop(text: str, offset: int, marks: Sequence[Citation]) -> list[Citation]:
    """Those of `marks` that stand at the very end of `text`, behind its full stop."""
    found: list[Citation] = []
    end = len(text.rstrip())
    for mark in reversed(marks):
        if mark.end - offset != end and text[mark.end - offset : end].strip() and not any(mark.end == one.end for one in found):
            break
        found.insert(0, mark)
        end = mark.start - offset
    return found if found and _SENTENCE_END.search(text[: found[0].start - offset]) else []


def bare(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """`text` without the marks at `spans`."""
    out, at = [], 0
    for start, end in spans:
        out.append(text[at : max(at, start)])
        at = max(at, end)
    return "".join([*out, text[at:]])


def statements_of(text: str, question: str = "", *, numbered: bool = False, sources: Citable | None = None) -> list[CitedStatement]:
    """The statements of a whole answer; `numbered` and `sources` as for `CitationReader`."""
    reader, offset = CitationReader(question, numbered=numbered, sources=sources, targets=link_targets(text)), 0
    for index, sentence in enumerate(split_sentences(text)):
        reader.read(sentence, offset, index)
        offset += len(sentence)
    return reader.statements


def is_relevant(*, together: bool, alone: bool, others: bool) -> bool:
    """Citation precision of one citation, as ALCE defines it (Gao et al. 2023, arXiv 2305.14627, section 4).

    `together`: all citations of its sentence together support it (else none of them counts); `alone`: it supports it by itself;
    `others`: the rest of them support it without it. Irrelevant is what neither supports by itself nor is missed.
    """
    return together and (alone or not others)


# ---- taking marks out ----

_FIRST_NUMBER = re.compile(r"\d")


def without_marks(text: str, offset: int, bad: Sequence[Citation], good: Sequence[Citation]) -> str:
    """`text` without the marks of `bad` citations, and the space before them; a mark that cites `good` ones too keeps those.

    `offset` characters of the choice's text precede `text`; a mark that does not lie in it whole stays.
    """
    out, at = [], 0
    for start, end in sorted({(c.start - offset, c.end - offset) for c in bad}):
        if start < at or end > len(text):
            continue
        mark = text[start:end]
        kept = list(dict.fromkeys(c.number for c in good if (c.start - offset, c.end - offset) == (start, end) and c.number is not None))
        head = text[at:start]
        first = _FIRST_NUMBER.search(mark)
        if kept and first:
            out += [head, mark[: first.start()], ", ".join(map(str, kept)), mark[-1]]
        else:
            closes = text[end : end + 1] in ("", ".", ",", ";", ":", "!", "?", ")", " ", "\n")
            out.append(head.rstrip(" \t") if closes else head)
        at = end
    tail = text[at:]
    joined = "".join(out)
    return joined + (tail.lstrip(" \t") if at and (not joined or joined.endswith("\n")) else tail)
