"""Makes the summary that stands for the older part of a conversation: an LLM's within a deadline, or else the extractive one.

An LLM's summary is checked against what it covers before it is used; one that fails is repaired, or the extractive one is used, and
`Summary.problems` says why. What comes after the deadline is checked too, and kept for the client's next turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace

from proxy.context.summaries import extractive
from proxy.context.summaries.check import SummaryProblem, check, repair
from proxy.context.summaries.late import Late
from proxy.context.summaries.message import is_summary, summary_message, summary_text
from proxy.context.summaries.priorities import required_lines
from proxy.context.summaries.prompt import prompt, read
from proxy.errors import ProxyError, UpstreamRefused
from proxy.exchange import Message
from proxy.ports import ChatModel

MAX_BACKGROUND = 16
"""Calls that go on after their deadline, in one process; past it they are cancelled instead."""
_SETTINGS_REFUSED = frozenset((400, 404, 415, 422, 501))
"""Statuses with which servers refuse a ``temperature`` that they do not know."""
_log = logging.getLogger(__name__)


class SummariserOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``summariser:`` of a stage."""

    upstream: Annotated[str, Meta(min_length=1, description="an upstream of config.yaml with a key of its own")]
    model: Annotated[str, Meta(min_length=1, description="model name, as that upstream knows it")]
    deadline_ms: Annotated[float, Meta(gt=0, description="longest wait in the request's path; past it the extractive summary is used")] = (
        1000
    )
    timeout_s: Annotated[float, Meta(gt=0, description="longest wait for a summary in the background, retries included")] = 60.0
    params: Annotated[Mapping[str, Any], Meta(description="further fields of the call, as max_tokens")] = {}


class Summary(Struct, frozen=True):
    """A summary and how it came about."""

    text: str
    """"" where nothing fits the budget."""
    made_by: Literal["llm", "extractive", "llm-repaired"]
    problems: tuple[str, ...] = ()
    """Why it is not the LLM's own: ``deadline``, ``failed: …``, ``empty``, ``too-long``, ``missing: …``, ``number: …``, …"""
    ms: float = 0.0
    """What it took, in milliseconds; for a late one, from the asking."""


class _Task(Struct, frozen=True):
    """One conversation to summarise."""

    messages: Sequence[Message]
    query: str
    max_tokens: int
    count: Callable[[str], int]


_WAITING_SHARE = 0.95
"""Of the deadline; the rest is for what the stage does with the summary."""
OnLate = Callable[[Summary], Awaitable[None]]
"""Called with an LLM's summary that passed the check after its deadline."""


class Summariser:
    """Summaries for one stage; `options` None is the extractive one alone. Ends with `stop`."""

    def __init__(self, chat: ChatModel, options: SummariserOptions | None, *, max_background: int = MAX_BACKGROUND) -> None:
        self._chat, self._options, self._places = chat, options, max_background
        self._background: dict[tuple[str, str], asyncio.Task[Summary]] = {}
        self._late: Late[Summary] = Late()
        self._temperature = True

    async def summarise(
        self,
        messages: Sequence[Message],
        query: str,
        max_tokens: int,
        count: Callable[[str], int],
        client: str,
        *,
        on_late: OnLate | None = None,
    ) -> Summary:
        """A summary of `messages` of at most `max_tokens` by `count`, which may be called in another thread.

        Of the same client's late summaries one of the same messages and budget is used, if it has come by now; and one that came too
        late for an earlier summary among `messages` is read in its place.
        """
        started = time.perf_counter()
        task = _Task(tuple(self._improved(message, client) for message in messages), query, max_tokens, count)
        if self._options is None or max_tokens <= 0:
            return _timed(await asyncio.to_thread(_extractive, task), started)
        key = (client, _key(task))
        if (known := self._late.get(*key)) is not None:
            return _timed(known, started)
        asked = self._background.get(key) or asyncio.create_task(self._ask(task, started))
        try:
            fallback = await asyncio.to_thread(_extractive, task)
            left = self._options.deadline_ms / 1000 * _WAITING_SHARE - (time.perf_counter() - started)
            done, _ = await asyncio.wait({asked}, timeout=max(0.0, left))
        except BaseException:
            if self._background.get(key) is not asked:
                asked.cancel()
            raise
        found = asked.result() if done else Summary("", "extractive", (self._later(key, asked, fallback.text, on_late),))
        return _timed(found if found.text else replace(fallback, problems=found.problems), started)

    async def stop(self) -> None:
        """End what still runs in the background."""
        tasks = list(self._background.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _improved(self, message: Message, client: str) -> Message:
        """An earlier extractive summary as the LLM made it in the meantime; any other message as it is."""
        late = self._late.get(client, _text_key(summary_text(message))) if is_summary(message) else None
        return message if late is None else summary_message(late.text)

    def _later(self, key: tuple[str, str], asked: asyncio.Task[Summary], used: str, on_late: OnLate | None) -> str:
        """Let the call go on, if there is a place; says what became of it. `used` is the text that is used now."""
        running = self._background.get(key)
        if running is None and len(self._background) < self._places:
            self._background[key] = asyncio.create_task(self._keep(key, asked, used, on_late))
            return "deadline"
        if running is not asked:
            asked.cancel()
        return "deadline" if running else "deadline, cancelled: too many in the background"

    async def _keep(self, key: tuple[str, str], asked: asyncio.Task[Summary], used: str, on_late: OnLate | None) -> Summary:
        try:
            found = await asked
            if found.text:
                self._late.put(*key, found)
                self._late.put(key[0], _text_key(used), found)
                if on_late is not None:
                    await on_late(found)
        except Exception:
            _log.exception("a summary in the background failed")
            return Summary("", "extractive", ("failed",))
        else:
            return found
        finally:
            del self._background[key]

    async def _ask(self, task: _Task, started: float) -> Summary:
        """The LLM's, checked; without text where it cannot be used, with the reasons."""
        required = await asyncio.to_thread(required_lines, task.messages, task.max_tokens, task.count)
        try:
            answer = read(await self._complete(prompt(task.messages, task.query, task.max_tokens, required)))
        except ProxyError as error:
            return Summary("", "extractive", (f"failed: {error.code}: {error.message[:200]}",))
        if not answer:
            return Summary("", "extractive", ("empty",))
        return _timed(await asyncio.to_thread(accept, answer, task.messages, required, task.query, task.max_tokens, task.count), started)

    async def _complete(self, messages: Sequence[Message]) -> str:
        """At temperature 0, until the upstream turns out to refuse it."""
        options = self._options
        assert options is not None
        if self._temperature:
            try:
                params = {"temperature": 0, **options.params}
                return await self._chat.complete(options.upstream, options.model, messages, params=params, timeout_s=options.timeout_s)
            except UpstreamRefused as error:
                if error.upstream_status not in _SETTINGS_REFUSED:
                    raise
        answer = await self._chat.complete(options.upstream, options.model, messages, params=options.params, timeout_s=options.timeout_s)
        self._temperature = False
        return answer


def accept(
    answer: str, messages: Sequence[Message], required: Sequence[str], query: str, max_tokens: int, count: Callable[[str], int]
) -> Summary:
    """An LLM's `answer` as a summary: as it is, shortened and repaired, or without text where that does not help."""
    reasons: list[str] = []
    text = answer
    if count(text) > max_tokens:
        reasons.append("too-long")
        text = extractive.summarise([summary_message(text)], query=query, max_tokens=max_tokens, count=count)
    problems = check(text, messages, required)
    reasons += _said(problems)
    if not problems and text:
        return Summary(text, "llm-repaired" if reasons else "llm", tuple(reasons))
    repaired = repair(text, problems, max_tokens=max_tokens, count=count)
    if repaired is None or check(repaired, messages, required):
        return Summary("", "extractive", tuple(reasons))
    return Summary(repaired, "llm-repaired", tuple(reasons))


def _extractive(task: _Task) -> Summary:
    text = extractive.summarise(task.messages, query=task.query, max_tokens=task.max_tokens, count=task.count)
    return Summary(text, "extractive")


def _said(problems: Sequence[SummaryProblem]) -> list[str]:
    return [f"{problem.kind}: {problem.text[:120]}" for problem in problems]


def _timed(summary: Summary, started: float) -> Summary:
    return replace(summary, ms=(time.perf_counter() - started) * 1000)


def _text_key(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _key(task: _Task) -> str:
    data = orjson.dumps([list(task.messages), task.max_tokens], option=orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.blake2b(data, digest_size=16).hexdigest()
