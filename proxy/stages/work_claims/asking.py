"""What the policy's judge is asked of an account, sentence by sentence: does the run support it? Pure.

In: sentences that no rule decides, and the run. Out: a `SupportCheck` each, with the events of the run that share words with the sentence
(all of them where the run is short) behind a list of all its calls. What the judge says becomes a `Finding` or nothing: *contradicted*
always counts, *neither* only where a sentence tells of an act that was made and the list is complete: what was never done leaves no event.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from proxy.context.tool_results.turns import CalledTool
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.judging.questions import support_question
from proxy.language.text import is_negated
from proxy.offloop import each
from proxy.ports.judge import JudgeAnswer, JudgeQuestion
from proxy.stages.work_claims.calls import result_of
from proxy.stages.work_claims.findings import Finding
from proxy.stages.work_claims.run import Run
from proxy.stages.work_claims.statements import AccountSentence, works

EVENT_CHARS = 4000
"""Of events for one sentence, as of evidence for a claim."""
ALL_CALLS = "All calls that the agent made, in order. What none of them did, it has not done:"
LIST_CHARS = 2000
"""Of the list of calls, from its end."""
ARGUMENT_CHARS = 100
"""Of a call's arguments in the list."""
READ_CHARS = 200_000
"""Of a run, from its end: 0.1 s of processor time."""
SYSTEM_CHARS = 20_000
"""Of a system's message."""
_PIECE = re.compile(r"[^\n]{1,300}")
"""A line, or a part of a long one."""


class Event(Struct, frozen=True):
    """What somebody said, or a call with its result."""

    title: str
    text: str
    call: CalledTool | None = None


class SupportCheck(Struct, frozen=True):
    """One sentence of an account, and what a judge is asked of it."""

    sentence: AccountSentence
    question: JudgeQuestion
    nearest: CalledTool | None
    """The call that shares most words with it."""
    complete: bool
    """Whether the list has every call that may have done work."""


def support_checks(sentences: Sequence[AccountSentence], run: Run) -> list[SupportCheck]:
    """For each sentence what the judge is asked."""
    if not sentences:
        return []
    events, (listed, complete) = _Events(run), _list_of_calls(run)
    checks = []
    for sentence in sentences:
        texts, nearest = events.sharing(sentence.text)
        checks.append(SupportCheck(sentence, support_question(sentence.text, (listed, *texts)), nearest, complete))
    return checks


def finding_of(check: SupportCheck, answer: JudgeAnswer) -> Finding | None:
    """What speaks against a sentence by the judge's word."""
    text = check.sentence.text
    if answer.choice == "contradicted":
        return Finding("account", text, text, "contradicted", answer.reason or "the judge: the run says otherwise", check.nearest)
    if answer.choice == "neither" and check.complete and _tells_of_act(check.sentence):
        return Finding("account", text, text, "unsupported", answer.reason or "the judge: no call of the run shows it")
    return None


def _tells_of_act(sentence: AccountSentence) -> bool:
    """Whether it says that something was done, rather than not."""
    return sentence.done and not any(is_negated(sentence.folded, language) for language in works()["cancel"].words)


class _Events:
    """The events of a run in pieces, to be searched for several sentences. Without numpy, which a policy of this stage does not need."""

    def __init__(self, run: Run) -> None:
        self._events = _read(run)
        self._pieces = [(i, piece) for i, event in enumerate(self._events) for piece in _PIECE.findall(event.text)]
        self._terms = [frozenset(terms(piece)) for _, piece in each(self._pieces)]
        self._having = Counter(term for found in self._terms for term in found)
        self._chars = sum(len(piece) for _, piece in self._pieces)

    def sharing(self, sentence: str) -> tuple[list[str], CalledTool | None]:
        """The events that share words with a sentence, `EVENT_CHARS` of them in their order, else the last; and the call that shares most.

        Words are weighed by how rare they are in the run (Robertson's inverse document frequency).
        """
        n, wanted = len(self._pieces), set(terms(sentence))
        weights = {term: math.log(1 + (n - self._having[term] + 0.5) / (self._having[term] + 0.5)) for term in wanted}
        scores = [sum(weights[term] for term in found & wanted) for found in self._terms]
        ranked = sorted(range(n), key=lambda i: (-scores[i], -i))
        chosen, left = set(range(n)) if self._chars <= EVENT_CHARS else set[int](), EVENT_CHARS
        for i in ranked if not chosen else ():
            if (left := left - len(self._pieces[i][1])) < 0:
                break
            chosen.add(i)
        shown: dict[int, list[str]] = {}
        for i in sorted(chosen):
            shown.setdefault(self._pieces[i][0], []).append(self._pieces[i][1])
        calls = (self._events[self._pieces[i][0]].call for i in ranked if scores[i] > 0)
        texts = [f"({self._events[i].title}) " + "\n".join(lines) for i, lines in shown.items()]
        return texts, next((call for call in calls if call is not None), None)


def _read(run: Run) -> list[Event]:
    """What system and users said and what the calls returned, in order; of a long run the end."""
    placed = [(turn.message, Event("user", turn.text)) for turn in run.user_turns]
    for number, call in enumerate(run.calls, 1):
        result = call.result_text if call.result is not None else "no result"
        placed.append((call.message, Event(f"call {number}, {call.tool}", f"{call.arguments}\n{result}", call)))
    placed.sort(key=lambda one: one[0])
    events, left = list[Event](), READ_CHARS
    for _, event in reversed(placed):
        events.append(Event(event.title, event.text[-left:], event.call))
        if (left := left - len(event.text)) <= 0:
            break
    return [*(Event("system", text[:SYSTEM_CHARS]) for text in run.systems), *reversed(events)]


def _list_of_calls(run: Run) -> tuple[str, bool]:
    """The run's calls in short, and whether they are all."""
    lines, left = list[str](), LIST_CHARS
    for number, call in reversed(list(enumerate(run.calls, 1))):
        line = f"{number}. {call.tool} {call.arguments[:ARGUMENT_CHARS]}{' (failed)' if result_of(call) == 'failed' else ''}"
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    complete = run.whole and not run.unseen_end and len(lines) == len(run.calls)
    title = ALL_CALLS if complete else "Calls that the agent made, the last of them:"
    return "\n".join((title, *reversed(lines))), complete
