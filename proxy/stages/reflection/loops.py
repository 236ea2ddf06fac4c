"""Loops and stalls of an agent: the turns of a conversation in, `Loop`s out. Pure; names of tools and results are compared, not understood.

What a person has said in between makes a repetition legitimate, so calls are compared within a *stretch*: the steps between two messages
of the user. (A long message that the user has sent before, word for word, is a harness that says "go on", and begins no stretch.)

A repetition counts where it brought the same result again and nothing in between could have changed it. A tool counts as reading by the
words of its name (``get_user``, ``searchDocs``); any other might change something. Tools whose repetition is the point (a status is
polled, a page is scrolled) are not judged by a single repetition, and are slow to count as a stall. A call that failed is counted by its
own failure: here it is only a step that brought nothing new.

Each further repetition is a `Loop` of its own. Time is linear in the length of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from proxy.context.passages import is_retrieval_tool
from proxy.context.tool_results.names import IDLE, PACED, is_of, reads
from proxy.context.tool_results.results import chunks_of
from proxy.context.tool_results.turns import AgentTurn, CalledTool
from proxy.language.json.fingerprint import fingerprint, identifier, normalised, normalised_text
from proxy.ports.failures import Failure
from proxy.stages.reflection import adjustments
from proxy.stages.reflection.failures import action_of, make_failure, refs_of

STALL_AFTER = 6
"""Steps without anything new."""
MIN_HARNESS_CHARS = 40
"""Of a user's message that tells a harness."""
MAX_COMPARED_CHARS = 20_000
"""Results up to this length are compared as JSON, without the fields that change each time; longer ones as they are."""
DIRECT, APART = 2, 3
"""The same call with the same result is a loop at the second time in direct succession (reading tools only), or at the third."""
STEP, PACED_STEP = 3, 1
"""Weight of a step without anything new, and of one that only polls or scrolls."""

# fmt: off
QUERY_ARGUMENTS = (
    "query", "q", "search_query", "search", "question", "keywords", "keyword", "search_term", "term", "terms", "text", "pattern",
)
# fmt: on
_UNFINISHED_WORDS = re.compile(
    r"\b(?:queued|pending|in[ _-]?progress|running|processing|waiting|scheduled|not (?:yet )?(?:ready|done|finished|available))\b"
    r"|\"(?:progress|percent)\w{0,12}\"\s?:|\b(?:läuft noch|in bearbeitung|wartet|pendiente|en curso|procesando|en cours|en attente)\b",
    re.I,
)
"""Of a result that will be another one later: asking again is the way to get it."""
MAX_STATE_CHARS = 2000
"""A longer result is no word on how far something has come."""


class Loop(Struct, frozen=True):
    """Something that was done again and brought nothing new."""

    code: str
    """One of ``kinds.CODES["loop"]``."""
    tool: str
    """"" for ``no_progress``; of ``alternating`` the tool of its first call."""
    calls: tuple[CalledTool, ...]
    """The first and the newest concerned; of ``alternating`` the newest round, of ``no_progress`` the first and the last step."""
    messages: tuple[int, ...]
    """Positions of these, the newest last."""
    count: int
    """How often: calls, queries, full rounds (``alternating``), steps (``no_progress``)."""


def find_loops(
    turns: Sequence[AgentTurn],
    *,
    failed: Collection[str] = (),
    retrieval: Callable[[str], bool] = is_retrieval_tool,
    stall_after: int = STALL_AFTER,
) -> list[Loop]:
    """All loops, by position. `failed` are the `CalledTool.cause`s of calls that are known to have failed."""
    causes = frozenset(failed)
    found: list[Loop] = []
    for steps in _stretches(turns):
        stretch = _Stretch(causes, retrieval, max(stall_after, 2))
        for step in steps:
            found += stretch.next(step)
    return sorted(found, key=lambda loop: loop.messages[-1])


def _stretches(turns: Sequence[AgentTurn]) -> Iterator[list[list[CalledTool]]]:
    """Steps (the answered calls of one message, each action once) between what the user says."""
    steps: list[list[CalledTool]] = []
    said: set[str] = set()
    for turn in turns:
        if turn.role == "user":
            text = turn.text.strip()
            if len(text) < MIN_HARNESS_CHARS or text not in said:
                yield steps
                steps = []
            said.add(text)
        elif answered := {call.key: call for call in turn.calls if call.result is not None}:
            steps.append(list(answered.values()))
    yield steps


class _Action:
    """One action of a stretch, as it was done last."""

    __slots__ = ("changes", "count", "first", "step", "text", "version")

    def __init__(self, call: CalledTool) -> None:
        self.first = call
        self.count = 0
        """Times in a row with the same result, nothing having changed in between, none of them failed."""
        self.text = ""
        self.version = 0
        """Goes up with each result that differs from the one before."""
        self.step = -2
        self.changes = 0
        """Calls so far, in the stretch, that might have changed something."""


class _Query:
    """A query, or a set of chunks: by what calls, and what they have brought."""

    __slots__ = ("changes", "chunks", "count", "first", "keys", "texts")

    def __init__(self, call: CalledTool) -> None:
        self.first = call
        self.keys: set[str] = set()
        self.chunks: set[str] = set()
        self.texts: set[str] = set()
        self.count = 1
        self.changes = 0


class _Stretch:
    """Follows the steps of one stretch."""

    def __init__(self, failed: frozenset[str], retrieval: Callable[[str], bool], stall_after: int) -> None:
        self._failed, self._retrieval, self._stall_after = failed, retrieval, stall_after
        self._actions: dict[str, _Action] = {}
        self._queries: dict[tuple[str, str], _Query] = {}
        self._sets: dict[tuple[str, frozenset[str]], _Query] = {}
        self._texts: set[str] = set()
        self._changes = 0
        self._steps: list[tuple[tuple[tuple[str, int], ...], list[CalledTool]]] = []
        """What was done with what result, and its calls."""
        self._alternated = 0
        """Steps of the alternation that is going on."""
        self._stale: list[list[CalledTool]] = []
        self._weight = 0

    def next(self, step: list[CalledTool]) -> list[Loop]:
        """The loops that this step completes."""
        lost = [bool(self._failed) and call.cause in self._failed for call in step]
        again = [self._is_repetition(call, failed) for call, failed in zip(step, lost, strict=True)]
        fresh = [not failed and self._is_new(call, repeated) for call, failed, repeated in zip(step, lost, again, strict=True)]
        self._texts.update(call.result_text.strip() for call in step)
        self._steps.append((tuple(sorted((call.key, self._actions[call.key].version) for call in step)), step))
        found = self._alternating(lost)
        for call, failed, repeated in zip(step, lost, again, strict=True):
            searched = None if failed else self._same_retrieval(call, repeated)
            if self._alternated < 4 and not failed and (loop := self._same_call(call) or searched):
                found.append(loop)
        stalled = self._no_progress(step, any(fresh))
        return found if found or stalled is None else [stalled]

    # ---- the same call ----

    def _is_repetition(self, call: CalledTool, failed: bool) -> bool:
        """Note the call; whether it was done before and the result is the one it had then."""
        action = self._actions.setdefault(call.key, _Action(call))
        before, known = action.text, action.step >= 0
        action.text = call.result_text
        same = known and _same(before, action.text)
        unchanged = action.changes == self._changes
        if known and not same:
            action.version += 1
        if failed:
            action.count = 0
        elif same and unchanged and action.count:
            action.count += 1
        else:
            action.first, action.count = call, 1
        if not reads(call.tool):
            self._changes += 1
        action.changes = self._changes
        return same

    def _same_call(self, call: CalledTool) -> Loop | None:
        action = self._actions[call.key]
        direct = action.step == len(self._steps) - 2
        action.step = len(self._steps) - 1
        if action.count < (DIRECT if direct and reads(call.tool) else APART) or _waits(call):
            return None
        return _loop("same_call", call.tool, (action.first, call), action.count)

    # ---- the same query, the same chunks ----

    def _same_retrieval(self, call: CalledTool, repeated: bool) -> Loop | None:
        if not self._retrieval(call.tool) or _waits(call):
            return None
        query, text = _query(call.parsed), call.result_text
        chunks = chunks_of(text)
        asked = self._queries.setdefault((call.tool, query), _Query(call)) if query else None
        same_set = self._sets.setdefault((call.tool, chunks), _Query(call)) if chunks and (query or reads(call.tool)) else None
        loop = None
        if asked and asked.keys and call.key not in asked.keys and (chunks <= asked.chunks if chunks else text.strip() in asked.texts):
            loop = _again("same_query", asked, call)
        elif same_set is not None and same_set.keys and not repeated and (query or same_set.changes == self._changes):
            loop = _again("same_chunks", same_set, call)
        for one in (asked, same_set):
            if one is not None:
                one.keys.add(call.key)
                one.chunks |= chunks
                one.texts.add(text.strip())
                one.changes = self._changes
        return loop

    # ---- to and fro ----

    def _alternating(self, lost: list[bool]) -> list[Loop]:
        done, step = self._steps, self._steps[-1][1]
        swings = len(done) > 2 and done[-1][0] == done[-3][0] and done[-1][0] != done[-2][0]
        if not swings or any(_waits(call) for call in step):
            self._alternated = 0
            return []
        self._alternated = max(self._alternated, 2) + 1
        if self._alternated < 4 or self._alternated % 2 or (all(lost) and self._all_failed(done[-2][1])):
            return []
        calls = (*done[-2][1], *step)
        return [_loop("alternating", calls[0].tool, calls, self._alternated // 2)]

    def _all_failed(self, step: list[CalledTool]) -> bool:
        return all(call.cause in self._failed for call in step)

    # ---- nothing new ----

    def _is_new(self, call: CalledTool, repeated: bool) -> bool:
        """Whether the call brought something: of a tool that only reads, a result that no other call brought; of others, any."""
        return not repeated and not (call.result_text.strip() in self._texts and (reads(call.tool) or self._retrieval(call.tool)))

    def _no_progress(self, step: list[CalledTool], fresh: bool) -> Loop | None:
        if fresh:
            self._stale, self._weight = [], 0
            return None
        if all(is_of(call.tool, IDLE) for call in step):
            return None
        self._stale.append(step)
        self._weight += PACED_STEP if all(_waits(call) for call in step) else STEP
        if self._weight < STEP * self._stall_after:
            return None
        return _loop("no_progress", "", (*self._stale[0], *step), len(self._stale))


# ---- comparing ----


def _loop(code: str, tool: str, calls: tuple[CalledTool, ...], count: int) -> Loop:
    return Loop(code, tool, calls, tuple(dict.fromkeys(call.message for call in calls)), count)


def _again(code: str, asked: _Query, call: CalledTool) -> Loop:
    asked.count += 1
    return _loop(code, call.tool, (asked.first, call), asked.count)


def _same(one: str, other: str) -> bool:
    """Whether two results of the same call say the same; a request id or a timestamp of JSON makes no difference."""
    if one.strip() == other.strip():
        return True
    if max(len(one), len(other)) > MAX_COMPARED_CHARS or one.lstrip()[:1] not in ("{", "[") or other.lstrip()[:1] != one.lstrip()[:1]:
        return False
    try:
        first, second = normalised(orjson.loads(one)), normalised(orjson.loads(other))
    except ValueError:
        return False
    return bool(first) and first == second


def _query(arguments: dict[str, Any] | None) -> str:
    """The normalised query of a call's arguments; "" where there is none."""
    for name in QUERY_ARGUMENTS:
        value = (arguments or {}).get(name)
        if isinstance(value, list):
            value = " ".join(item for item in value if isinstance(item, str))
        if isinstance(value, str) and value.strip():
            return normalised_text(value)
    return ""


def _waits(call: CalledTool) -> bool:
    """Whether calling it again is how it is meant: a poll, a scroll, a ping, or a result that says that it is not the last word."""
    text = call.result_text
    return is_of(call.tool, PACED | IDLE) or (len(text) <= MAX_STATE_CHARS and _UNFINISHED_WORDS.search(text) is not None)


# ---- as a failure ----


def of_loop(loop: Loop) -> Failure:
    """Of a loop, as far as it has come: with every further round it occurs once more."""
    first, last = loop.calls[0], loop.calls[-1]
    if loop.code in ("same_query", "same_chunks"):  # named by its actions, the same however long it has become
        keys = [first.key]
    else:
        keys = [] if loop.code == "no_progress" else sorted({call.key for call in loop.calls})
    if loop.code in ("same_call", "same_chunks") and first.result is not None:
        given = {"tool_call_id": identifier(first.id)} if first.id else {}
        adjustment: Mapping[str, Any] = {"type": "use_result", "message": first.result.message, **given}
    elif loop.code == "same_query":
        adjustment = adjustments.rephrase(first.parsed or {})
    else:
        adjustment = {"type": "ask_human" if loop.code == "no_progress" else "stop_repeating"}
    return make_failure(
        "loop",
        loop.code,
        "request",
        loop.tool,
        keys,
        action=action_of(last),
        outcome={"times": loop.count},
        adjustment=adjustment,
        refs=refs_of(last),
        action_key=last.key,
        cause=fingerprint("loop", loop.code, loop.tool, last.cause),
        position=loop.messages[-1] if last.result is None else max(loop.messages[-1], last.result.message),
    )
