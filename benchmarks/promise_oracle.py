"""A judge that is always right, for `benchmarks.promise`: a scripted server that looks up whether a statement is of what was planted.

It speaks as a chat model or as a decision model. What the product still does not notice with it is the product's own: a statement that was
not split off, not asked about, or decided by a rule. It knows each answer's one wrong sentence and what differs there, not the evidence.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal

from benchmarks.promise_data import Pair, Question, differing
from proxy.ports.decisions import Answer
from proxy.ports.decisions import Question as Decision
from proxy.testing import ScriptedReply, completion, reply
from proxy.testing.upstream import ReceivedCall
from tests.decision_server import judging

Kind = Literal["chat", "decisions"]
SURE = 0.97
_WORD = re.compile(r"\w+", re.UNICODE)
_SHARED = 0.5
"""Of the planted sentence's words a statement has that is reworded, as a row of a table with its columns' names."""


@dataclass
class Oracle:
    """What it is asked about now, and how long it takes."""

    question: Question | None = None
    answer: str = ""
    delay_s: float = 0.0
    asked: list[str] = field(default_factory=list)
    """Statements, since the question was set."""

    def about(self, question: Question, answer: str) -> None:
        """What follows is about this answer to this question."""
        self.question, self.answer = question, answer
        self.asked.clear()

    def choice(self, statement: str, choices: Sequence[str]) -> str:
        """The right answer."""
        self.asked.append(statement)
        if "yes" in choices:
            return "yes" if isinstance(self.question, Pair) else "no"
        pair = self.question
        wrong = isinstance(pair, Pair) and self.answer == pair.wrong and is_planted(statement, pair)
        return "contradicted" if wrong else "supported"


def is_planted(statement: str, pair: Pair) -> bool:
    """Whether a statement says what is wrong in the wrong answer."""
    wrong, said = _words(pair.planted), _words(statement)
    right = _words(" ".join(differing(pair.wrong, pair.right)))
    if _within(said, _words(pair.right)):
        return False
    if _within(said, wrong) or _within(wrong, said):
        return True
    shared = len(set(said) & set(wrong)) / max(1, len(set(wrong)))
    for tag, _, _, start, end in SequenceMatcher(None, right, wrong, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        around = wrong[max(0, start - 1) : end + 1]
        if _within(around, said) and not _within(around, right):
            return True
        if end > start and shared >= _SHARED and _within(wrong[start:end], said) and not _within(wrong[start:end], right):
            return True
    return False


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether `part` stands in `whole` as it is."""
    n = len(part)
    return 0 < n <= len(whole) and any(list(whole[i : i + n]) == list(part) for i in range(len(whole) - n + 1))


def replying(oracle: Oracle, kind: Kind) -> ScriptedReply:
    """The server."""
    answer = _chat(oracle) if kind == "chat" else judging("openai", lambda state, question: _decided(oracle, question))

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        await asyncio.sleep(oracle.delay_s)
        await answer(writer, call)

    return write


def _decided(oracle: Oracle, question: Decision) -> Answer:
    statement = question.instructions.partition("\n\n")[2]
    choice = oracle.choice(statement, question.options)
    rest = (1 - SURE) / (len(question.options) - 1)
    return Answer({one: SURE if one == choice else rest for one in question.options})


def _chat(oracle: Oracle) -> ScriptedReply:
    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        body = call.json
        choices = body["response_format"]["json_schema"]["schema"]["properties"]["answers"]["items"]["properties"]["answer"]["enum"]
        statements = [one for group in json.loads(body["messages"][1]["content"])["groups"] for one in group["statements"]]
        answers: list[dict[str, Any]] = [
            {"number": one["number"], "reason": "", "answer": oracle.choice(one["statement"], choices), "confidence": SURE}
            for one in statements
        ]
        await reply(completion(json.dumps({"answers": answers})))(writer, call)

    return write


def with_judge(policy: str, kind: Kind, ask: str) -> str:
    """A policy's text with the oracle as its judge."""
    return f"{policy}\njudge: {{upstream: oracle, model: oracle, kind: {kind}, ask: {ask}, timeout_ms: 4000}}\n"
