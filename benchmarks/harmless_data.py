"""The conversations of `benchmarks.harmless`, as rows of JSON Lines and as the requests that a client would send of them.

`data/harmless` and `data/harmful` were written for this project without its rules in view and are what the policies are developed with;
`data/unseen` was written by another hand, and is only ever measured. `data/blind` was written last, by two who had seen neither rules nor
other data: agents with real-looking tool output, and business letters, contracts and timetables in six languages; 3 of its first findings
are mended. `data/acts` has agents that read, change and report (15 of them were written here, to show a fault), `data/languages`
26 languages, half of the conversations in other scripts than Latin; both were written the same way, and what they showed first is mended.
`data/sessions` has long ones, 20 to 41 answers each, in all APIs: of 30 written the same way those that showed a fault, which is mended,
and some others.
`data/worked` has answers that work things out (sums, shares, deadlines, portions) over documents and tables, by three writers who had seen
nothing of this project; none of what it showed is mended yet.
A row is a whole conversation that ends with the assistant: each of its assistant messages is the right answer (in a harmful one: the wrong
answer) to what stands before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
SUITES: Mapping[str, Mapping[str, Sequence[Path]]] = {
    "development": {"harmless": sorted((DATA / "harmless").glob("*.jsonl")), "harmful": sorted((DATA / "harmful").glob("*.jsonl"))},
    **{
        name: {"harmless": [DATA / name / "harmless.jsonl"], "harmful": [DATA / name / "harmful.jsonl"]}
        for name in ("unseen", "blind", "acts", "languages", "worked")
    },
    "sessions": {"harmless": [DATA / "sessions" / "harmless.jsonl"], "harmful": []},
}
Message = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Harm:
    """What is wrong in a harmful conversation."""

    type: str
    """``answer`` (says what the context contradicts), ``citation`` (of what is not there), ``injection``, ``clash``."""
    what: str
    """``number``, ``name``, ``date``, ``place``, …"""
    turn: int
    """Position of the message that holds it."""
    planted: str
    """The words that are wrong, as they stand there."""


@dataclass(slots=True, frozen=True)
class Turn:
    """One request, and what the model says to it."""

    body: Mapping[str, Any]
    reply: Message
    index: int
    """Position of the reply in its conversation."""
    last: bool


@dataclass(slots=True, frozen=True)
class Conversation:
    """One row."""

    id: str
    kind: str
    language: str
    stream: bool
    messages: Sequence[Message]
    tools: Sequence[Any] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    harm: Harm | None = None
    api: str = "chat"
    """``chat``, ``responses``, ``messages``."""

    def turns(self) -> Iterator[Turn]:
        """The requests, in order: everything before each assistant message."""
        ends = [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]
        for i in ends:
            yield Turn(self._body(i), self.messages[i], i, i == ends[-1])

    def _body(self, end: int) -> dict[str, Any]:
        asked = [i for i in range(end) if self.messages[i]["role"] == "user"]
        context = self.messages[asked[-1]].get("groundwire_context") if asked else None
        messages = [{key: value for key, value in message.items() if key != "groundwire_context"} for message in self.messages[:end]]
        body: dict[str, Any] = {"model": "gpt-4o", "messages": messages, "stream": self.stream, **self.params}
        return body | ({"tools": list(self.tools)} if self.tools else {}) | ({"groundwire": {"context": context}} if context else {})


def load(paths: Sequence[Path]) -> list[Conversation]:
    """All rows of these files. Raises `ValueError` for a row that is not as it should be."""
    found = [_conversation(json.loads(line), _refs(path)) for path in paths for line in path.read_text("utf-8").splitlines() if line]
    ids = [row.id for row in found]
    if len(set(ids)) != len(ids):
        raise ValueError(f"ids that come twice: {sorted({i for i in ids if ids.count(i) > 1})}")
    return found


def _refs(path: Path) -> Mapping[str, Any]:
    """Long system prompts and tool lists that several rows of a file share."""
    refs = path.with_suffix(".refs.json")
    return json.loads(refs.read_text("utf-8")) if refs.exists() else {}


def _conversation(row: Mapping[str, Any], refs: Mapping[str, Any]) -> Conversation:
    messages = list(row["messages"])
    if "system_ref" in row:
        messages.insert(0, {"role": "system", "content": refs["texts"][row["system_ref"]]})
    tools = refs["tools"][row["tools_ref"]] if "tools_ref" in row else row.get("tools", [])
    harm = row.get("harm")
    if messages[-1]["role"] != "assistant":
        raise ValueError(f"{row['id']}: does not end with the assistant")
    if harm is not None:
        turn = harm["turn"] + ("system_ref" in row)
        where = json.dumps(messages[turn], ensure_ascii=False) + json.dumps(messages[turn].get("content"), ensure_ascii=False)
        if harm["planted"] not in where and json.dumps(harm["planted"], ensure_ascii=False)[1:-1] not in where:
            raise ValueError(f"{row['id']}: {harm['planted']!r} does not stand in message {turn}")
        harm = Harm(harm["type"], harm["what"], turn, harm["planted"])
    return Conversation(
        row["id"],
        row["kind"],
        row["language"],
        row.get("stream", False),
        messages,
        tools,
        row.get("params", {}),
        harm,
        row.get("api", "chat"),
    )
