"""What an answer cites: statements with their citations, quotations that nobody said, and what is kept of an exchange while it streams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from proxy.exchange import Choice
from proxy.grounding.citations.checking import CitationFinding, CitationJudge, JudgedStatement
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.citing import CitationReader, CitedStatement, statements_of
from proxy.grounding.citations.written_forms import Citation, invented_quotations
from proxy.grounding.evidence.retrieval import NUMERAL
from proxy.language.json.strings import strings_of

QUOTATION = "quotation"
"""The kind of a citation that is a quotation which is not in the context."""
JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\"])")


class Case:
    """What is kept of one exchange while it lasts."""

    def __init__(self, judge: CitationJudge, texts: Sequence[str], question: str) -> None:
        self.judge = judge
        self.texts = texts
        """All that was said in the request; nothing, where the talk is a story, whose characters say what they say."""
        self.question = question
        self.readers: dict[int, CitationReader] = {}
        """By choice: what has been read of it, sentence by sentence."""
        self.tongues: dict[int, str] = {}
        """By choice, ISO 639-1."""
        self.json: set[int] = set()
        """Choices that turn out to be JSON while they stream."""


def quotations(text: str, offset: int, said: Sequence[str]) -> list[JudgedStatement]:
    """The invented ones, as citations of what is not there."""
    found = []
    for start, end in () if JSON.match(text) else invented_quotations(text, said):
        cited = Citation(offset + start, offset + end, QUOTATION, None, text[start:end])
        found.append(JudgedStatement(CitedStatement(cited.start, cited.end, (), [cited]), None, (CitationFinding(cited, exists=False),)))
    return found


def codes_of(bad: Sequence[CitationFinding]) -> list[str]:
    """What the verdict is called for, in order."""
    found = ["citation_invented"] if any(not finding.exists for finding in bad) else []
    return found + (["citation_unsupported"] if any(finding.supports is False for finding in bad) else [])


def is_unchecked(judged: JudgedStatement) -> bool:
    """Whether the check failed of what its citations, which exist, say to it together."""
    return judged.statement.needs_citation and bool(judged.statement.cited) and judged.failed


def takes_numbers(answer: str, passages: Sequence[str], question: str) -> bool:
    """Whether an answer has numbers of two digits and more from its passages, which were not in the question."""
    numbers = {number for number in NUMERAL.findall(answer) if len(number) > 1} - set(NUMERAL.findall(question))
    return bool(numbers) and any(not numbers.isdisjoint(NUMERAL.findall(passage)) for passage in passages)


def reader_of(citable: Citable, question: str) -> CitationReader:
    """For a choice that is read sentence by sentence."""
    return CitationReader(question, numbered=bool(citable.passages), sources=_sources(citable))


def _sources(citable: Citable) -> Citable | None:
    return citable if citable.can_be_cited else None


def json_strings(text: str) -> list[Any] | None:
    """The strings of an answer that is JSON; None for any other."""
    return strings_of(text) if JSON.match(text) else None


def read_statements(choice: Choice, question: str, citable: Citable) -> list[CitedStatement]:
    """Of a whole choice; of each string of a JSON answer, with the literal's place for its citations."""
    strings, numbered = json_strings(choice.text), bool(citable.passages)
    if strings is None:
        return statements_of(choice.text, question, numbered=numbered, sources=_sources(citable))
    found = []
    for string in strings:
        for statement in statements_of(string.value, question, numbered=numbered, sources=_sources(citable)):
            statement.start, statement.end = string.start, string.end
            statement.citations = [replace(citation, start=string.start, end=string.end) for citation in statement.citations]
            found.append(statement)
    return found
