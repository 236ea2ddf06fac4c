"""The conversations of `benchmarks.promise`, as rows of YAML and as the requests that a client would send of them.

`data/promise/README.md` says how they were made. A pair is a question with its evidence, a right answer, and the same answer with one thing
wrong; a row of ``relevance.yaml`` is a question whose passages are about something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from benchmarks.dialects import in_each_dialect

FOLDER = Path(__file__).parent / "data" / "promise"
LANGUAGES = ("en", "de", "es", "fr", "it", "pt")
Kind = Literal["number", "date", "name", "place", "negation", "condition", "attribution", "order", "status", "addition", "citation"]
Shape = Literal["prose", "table", "csv", "json", "log", "yaml", "form", "mail"]
Where = Literal["user", "system", "tool", "hint", "block-user", "block-system"]
Api = Literal["chat", "responses", "messages"]
_MONTHS = "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
_SENTENCE = re.compile(rf"(?<=[.!?])(?<!\b[A-Z]\.)(?<!Dr\.)(?<!No\.)(?<!art\.)\s+(?!(?:{_MONTHS})\b)|\n+")
"""Where one ends: neither an initial nor an abbreviation nor a day of the month does it."""
_PASSAGE = re.compile(r"^=== (.+)\n", re.MULTILINE)


@dataclass(slots=True, frozen=True)
class Question:
    """What a client sends."""

    id: str
    language: str
    where: str
    """Where the evidence stands: pasted by the user, in the system message, a tool's result, passages as a hint, a marked block."""
    api: str
    stream: bool
    evidence: str
    """With lines ``=== SOURCE`` before passages that have one."""
    question: str
    system: str = ""
    tool: str = ""
    """The call whose result the evidence is: its name and arguments."""
    earlier: Sequence[Mapping[str, str]] = ()
    """Turns before this one, each with what ``user`` and ``assistant`` said; pasted evidence stands in the first."""

    @property
    def passages(self) -> list[dict[str, str]]:
        """The parts of the evidence, with their sources."""
        parts = _PASSAGE.split(self.evidence)
        if len(parts) == 1:
            return [{"content": self.evidence.strip()}] if self.evidence.strip() else []
        return [{"content": text.strip(), "source": source} for source, text in zip(parts[1::2], parts[2::2], strict=True)]

    def request(self) -> tuple[str, dict[str, Any]]:
        """Path and body."""
        path, body = in_each_dialect(self._chat())[self.api]
        return path, {**body, "stream": self.stream} | ({"groundwire": {"context": self.passages}} if self.where == "hint" else {})

    def _chat(self) -> dict[str, Any]:
        system, asked, more = self.system, self.question, list[dict[str, Any]]()
        body: dict[str, Any] = {"model": "gpt-4o"}
        if self.where == "system":
            system = f"{system}\n\n{self.evidence}"
        elif self.where == "block-system":
            system = f"{system}\n\n<documents>\n{self.evidence}</documents>"
        elif self.where == "user":
            asked = f"{self.evidence}\n{asked}"
        elif self.where == "block-user":
            asked = f"<context>\n{self.evidence}</context>\n\n{asked}"
        elif self.where == "tool":
            name, arguments = self.tool.split(" ", 1)
            called = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
            more = [
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": "call_1", "content": self.evidence.strip()},
            ]
            body["tools"] = [
                {"type": "function", "function": {"name": name, "description": "Looks it up.", "parameters": _schema(arguments)}}
            ]
        before = [{"role": "system", "content": system}] if system else []
        return body | {"messages": [*before, *self._turns(asked), *more]}

    def _turns(self, asked: str) -> list[dict[str, Any]]:
        """What user and assistant said, with `asked` (the question, and what is pasted before it) at the end."""
        said = [{"role": role, "content": turn[role]} for turn in self.earlier for role in ("user", "assistant")]
        if not said:
            return [{"role": "user", "content": asked}]
        pasted = asked.removesuffix(self.question)
        return [{"role": "user", "content": pasted + said[0]["content"]}, *said[1:], {"role": "user", "content": self.question}]


@dataclass(slots=True, frozen=True)
class Pair(Question):
    """With a right and a wrong answer."""

    domain: str = ""
    kind: str = ""
    """What is wrong in the wrong answer."""
    shape: str = ""
    """Of the evidence."""
    right: str = ""
    wrong: str = ""

    @property
    def planted(self) -> str:
        """The one sentence of the wrong answer that is wrong."""
        (sentence,) = differing(self.right, self.wrong)
        return sentence


@dataclass(slots=True, frozen=True)
class OffTopic(Question):
    """A question whose passages are about something else, or are not there."""

    answer: str = ""
    """What the model says to it."""


def sentences(text: str) -> list[str]:
    """Sentences, and lines of a list."""
    return [part for part in _SENTENCE.split(text) if part]


def differing(right: str, wrong: str) -> list[str]:
    """The sentences of `wrong` that `right` does not have."""
    there = sentences(right)
    return [sentence for sentence in sentences(wrong) if sentence not in there]


def pairs(folder: Path = FOLDER) -> list[Pair]:
    """All of them, in the order of `LANGUAGES`. Raises `ValueError` for a row that is not as it should be."""
    return [_pair(row, language) for language in LANGUAGES for row in _rows(folder / f"{language}.yaml")]


def off_topic(folder: Path = FOLDER) -> list[OffTopic]:
    """The questions over another topic's passages."""
    return [OffTopic(**row) for row in _rows(folder / "relevance.yaml")]


def _rows(path: Path) -> Sequence[dict[str, Any]]:
    return yaml.safe_load(path.read_text("utf-8"))  # type: ignore[no-any-return]


def _pair(row: Mapping[str, Any], language: str) -> Pair:
    given = {name: value for name, value in row.items() if name != "change"}
    before, after = row["change"]
    if row["right"].count(before) != 1:
        raise ValueError(f"{row['id']}: {before!r} stands {row['right'].count(before)} times in the right answer")
    for name, values in (("kind", Kind), ("shape", Shape), ("where", Where), ("api", Api)):
        if row[name] not in get_args(values):
            raise ValueError(f"{row['id']}: {name} is {row[name]!r}")
    return Pair(**given, language=language, wrong=row["right"].replace(before, after))


def _schema(arguments: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in json.loads(arguments)}}
