"""The judge that a policy names, as `proxy.ports.judge.Judge`: what is known is not asked again, what it may cost is bounded, and where it
is away the built-in models' word stands.

In: a stage's questions. They go out in as few calls as they fit into, side by side; those of one exchange that others are still being found
for wait for them (`JudgeSession.join`). Answers are remembered by content, apart for each client. An answer near the threshold is asked for
once more with the choices in the other order, where that can be, and the mean counts. What it was asked, and what that cost, is in
`Facts.judge`; why it could not be asked is a warning code that changes no verdict.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from proxy.errors import ProxyError, StoreUnavailable, UpstreamRefused
from proxy.exchange import Exchange, JudgeUse, Verdict
from proxy.exchange.verdicts import JUDGE_OVER_BUDGET, JUDGE_UNAVAILABLE
from proxy.grounding.judging.questions import JudgeOptions
from proxy.grounding.judging.readouts import ChatReadout, DecisionReadout, JudgedBatch, TokenReadout
from proxy.language.lru import LRU, key_of
from proxy.ports import Ports, Spending
from proxy.ports.deadline import STORE_TIMEOUT_S, AwakeTimeout, left_s
from proxy.ports.judge import AskAbout, Builtin, Judge, JudgeAnswer, JudgeQuestion

log = logging.getLogger("groundwire.judge")

CACHE_SIZE = 8192
"""Answers that are remembered, some 500 bytes each."""
MAX_STATEMENT_CHARS = 2000
MAX_EVIDENCE_CHARS = 8000
"""Of one question; the rest is left out."""
MAX_CALL_CHARS = 24_000
"""Of a call's statements and evidence; one question always fits."""
MAX_CALLS = 8
"""Calls of a judge at a time."""
NEAR = 0.1
"""How near to its threshold an answer has to be to be asked for once more, the other way round."""
CLEAR = 0.6
"""Probability from which an answer counts that has no threshold of its own."""
PAUSE_AFTER, PAUSE_S = 3, 10.0
"""So many calls in a row that fail, and for so long nobody waits for it any more."""
SHARE_OF_TIME = 0.9
"""Of what is left until the deadline of the check: how long the judge is waited for, so that the built-in models' word still counts."""
_SHORTEST_S = 0.01
_TRIES = 2
"""Of a call whose answer cannot be read."""
_DAY_S = 86_400
_MAX_PROBLEM_CHARS = 300


class Readout(Protocol):
    """How a kind of model is asked."""

    max_questions: int
    reorders: frozenset[str]
    """Kinds of questions whose choices can be given in another order."""

    async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
        """Answers to questions of one purpose. Raises `ProxyError`, `ValueError`."""


class DailyBudget:
    """What a policy's judge may spend from one midnight (UTC) to the next, all processes that share a store together.

    `spending` counts over the processes; each learns what the others have spent with its own first question of a day and with every call it
    pays, so that each spends at most the calls too much that are open by then, `MAX_CALLS`. Without a store, or while it is away, a process
    counts what it knows. What a call costs that brings no answer nobody says: it counts nothing.
    """

    def __init__(
        self, max_usd: float | None, clock: Callable[[], float] = time.time, *, spending: Spending | None = None, name: str = ""
    ) -> None:
        self._max_usd, self._clock, self._spending, self._name = max_usd, clock, spending, name
        self._day, self._usd = 0, 0.0

    async def add(self, usd: float | None) -> None:
        """A call was paid. One of unknown price ends the day: what it costs could not be bounded."""
        if self._max_usd is None:
            return
        if usd is None:
            log.warning("what the policy's judge costs is not known: max_usd_per_day cannot be kept, so it is not asked any more today")
        await self._count(usd if usd is not None else self._max_usd)

    async def is_spent(self) -> bool:
        """Whether nothing is left of it."""
        if self._max_usd is None:
            return False
        if self._day != self._today():
            await self._count(0.0)
        return self._usd >= self._max_usd

    def _today(self) -> int:
        return int(self._clock() // _DAY_S)

    async def _count(self, usd: float) -> None:
        if (day := self._today()) != self._day:
            self._day, self._usd = day, 0.0
        self._usd += usd
        if self._spending is not None:
            try:
                async with AwakeTimeout(STORE_TIMEOUT_S):
                    spent = await self._spending.add(self._name, day, usd)
            except (StoreUnavailable, TimeoutError) as error:
                why = error or "no answer in time"
                log.warning("what the judge %s has cost is counted in this process alone: %s", self._name, why)
            else:
                self._usd = max(self._usd, spent if day == self._day else 0.0)


class UpstreamJudge:
    """Implements `proxy.ports.judge.Judge`: a model of an upstream. One a policy."""

    local_model = ""

    def __init__(self, readout: Readout, options: JudgeOptions, budget: DailyBudget | None = None) -> None:
        self.name, self.options = f"{options.upstream}/{options.model}", options
        self._readout, self._budget = readout, budget or DailyBudget(options.max_usd_per_day)
        self._known: LRU[JudgeAnswer] = LRU(CACHE_SIZE)
        self._places = asyncio.Semaphore(MAX_CALLS)
        self._failures, self._paused_until = 0, 0.0

    def session(self, exchange: Exchange, stage: str) -> UpstreamSession:
        """Implements `Judge`."""
        return UpstreamSession(self, exchange, stage)

    async def answers(self, questions: Sequence[JudgeQuestion], client: str, use: JudgeUse, timeout_s: float) -> list[JudgeAnswer]:
        """One for each; what `client` was told before is not asked again. What it takes is added to `use`."""
        questions = [_shortened(question) for question in questions]
        keys = [_key(client, question) for question in questions]
        found = {key: answer for key in keys if (answer := self._known.get(key)) is not None}
        use.asked += len(questions)
        use.cached += sum(key in found for key in keys)
        unknown = {key: question for key, question in zip(keys, questions, strict=True) if key not in found}
        new = dict(zip(unknown, await self._ask(list(unknown.values()), use, timeout_s), strict=True)) if unknown else {}
        for key, answer in new.items():
            if answer.probabilities:
                self._known.put(key, replace(answer, cached=True))
        answers = [found.get(key) or new[key] for key in keys]
        use.unanswered += sum(not answer.probabilities for answer in answers)
        return answers

    # ---- asking ----

    async def _ask(self, questions: Sequence[JudgeQuestion], use: JudgeUse, timeout_s: float) -> list[JudgeAnswer]:
        if problem := await self._why_unavailable():
            use.fail(problem)
            return [JudgeAnswer(by=self.name, problem=problem)] * len(questions)
        started = time.perf_counter()
        until = started + min(timeout_s, self.options.timeout_ms / 1000)
        found = await self._ask_in_calls(questions, use, until)
        near = [i for i, answer in enumerate(found) if self._is_near(questions[i], answer)]
        if near and time.perf_counter() < until:
            other = await self._ask_in_calls([questions[i] for i in near], use, until, reordered=True)
            for i, answer in zip(near, other, strict=True):
                if answer.probabilities:
                    both = found[i].probabilities
                    found[i] = replace(found[i], probabilities={c: (both[c] + answer.probabilities[c]) / 2 for c in both})
        use.ms += (time.perf_counter() - started) * 1000
        return [self._read(question, answer) for question, answer in zip(questions, found, strict=True)]

    async def _why_unavailable(self) -> str:
        """Why it is not asked now; "" where it is."""
        if await self._budget.is_spent():
            return JUDGE_OVER_BUDGET
        return "paused after failures" if time.monotonic() < self._paused_until else ""

    async def _ask_in_calls(
        self, questions: Sequence[JudgeQuestion], use: JudgeUse, until: float, *, reordered: bool = False
    ) -> list[JudgeAnswer]:
        calls = list(batches(questions, self._readout.max_questions))
        done = await asyncio.gather(*(self._call([questions[i] for i in call], use, until, reordered=reordered) for call in calls))
        answers = {i: answer for call, given in zip(calls, done, strict=True) for i, answer in zip(call, given, strict=True)}
        return [answers[i] for i in range(len(questions))]

    async def _call(self, questions: Sequence[JudgeQuestion], use: JudgeUse, until: float, *, reordered: bool) -> list[JudgeAnswer]:
        """An answer for each, asked for once more where nothing can be read; each try is paid."""
        problem = ""
        for _ in range(_TRIES):
            try:
                async with asyncio.timeout(max(0.0, until - time.perf_counter())), self._places:
                    if await self._budget.is_spent():  # while it waited for its place
                        use.fail(JUDGE_OVER_BUDGET)
                        return [JudgeAnswer(problem=JUDGE_OVER_BUDGET)] * len(questions)
                    use.calls += 1
                    asked = await self._readout.ask(questions, max(0.001, until - time.perf_counter()), reordered=reordered)
            except (ProxyError, ValueError, TimeoutError) as error:
                problem = _problem(error)
                log.info("the judge %s: %s", self.name, error or problem)
                break
            use.add(asked.input_tokens, asked.output_tokens, asked.usd)
            await self._budget.add(asked.usd)
            if asked.answers:
                self._failures = 0
                return list(asked.answers)
            problem = "an answer that cannot be read"
        self._note_failure(problem)
        use.fail(problem)
        return [JudgeAnswer(problem=problem)] * len(questions)

    def _note_failure(self, problem: str) -> None:
        self._failures += 1
        if self._failures >= PAUSE_AFTER:
            self._failures, self._paused_until = 0, time.monotonic() + PAUSE_S
            log.warning("the judge %s is not asked for %g s: %s", self.name, PAUSE_S, problem)

    # ---- reading ----

    def _threshold(self, choice: str) -> float:
        own = {"supported": self.options.min_support, "contradicted": self.options.min_contradiction}
        return own.get(choice, CLEAR)

    def _is_near(self, question: JudgeQuestion, answer: JudgeAnswer) -> bool:
        found = apply_temperature(answer.probabilities, self.options.temperature)
        return question.kind in self._readout.reorders and any(abs(p - self._threshold(choice)) < NEAR for choice, p in found.items())

    def _read(self, question: JudgeQuestion, answer: JudgeAnswer) -> JudgeAnswer:
        found = apply_temperature(answer.probabilities, self.options.temperature)
        best = max(found, key=lambda choice: found[choice], default="")
        clear = best if best and found[best] >= self._threshold(best) else ""
        return replace(answer, probabilities=found, choice=clear, by=self.name)


class UpstreamSession:
    """Implements `proxy.ports.judge.JudgeSession`."""

    def __init__(self, judge: UpstreamJudge, exchange: Exchange, stage: str) -> None:
        self._judge, self._exchange, self._stage = judge, exchange, stage
        self._joined_count = 0
        """Of those who have joined and have neither asked nor left."""
        self._waiting: list[tuple[Sequence[JudgeQuestion], float, asyncio.Future[list[JudgeAnswer]]]] = []
        self._early_tasks: dict[JudgeQuestion, asyncio.Task[list[JudgeAnswer]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """Implements `JudgeSession`."""
        return self._judge.name

    @property
    def ask(self) -> AskAbout:
        """Implements `JudgeSession`."""
        return self._judge.options.ask

    async def answers(self, questions: Sequence[JudgeQuestion], timeout_s: float | None = None) -> list[JudgeAnswer]:
        """Implements `JudgeSession`."""
        if not questions:
            return []
        for task in {self._early_tasks[question] for question in questions if question in self._early_tasks}:
            await asyncio.wait([task])
        limit_s = self._judge.options.timeout_ms / 1000 if timeout_s is None else timeout_s
        if not self._joined_count:
            return await self._ask(questions, limit_s)
        future: asyncio.Future[list[JudgeAnswer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((questions, limit_s, future))
        self._joined_count -= 1
        asyncio.get_running_loop().call_soon(self._send_waiting)  # whoever begins beside this one has joined by then
        try:
            return await future
        finally:
            self._joined_count += 1

    def ahead(self, questions: Sequence[JudgeQuestion], timeout_s: float | None = None) -> None:
        """Implements `JudgeSession`."""
        new = [question for question in questions if question not in self._early_tasks]
        if new:
            limit_s = self._judge.options.timeout_ms / 1000 if timeout_s is None else timeout_s
            task = asyncio.create_task(self._ask(new, limit_s))
            self._early_tasks |= dict.fromkeys(new, task)

    def join(self) -> None:
        """Implements `JudgeSession`."""
        self._joined_count += 1

    def leave(self) -> None:
        """Implements `JudgeSession`."""
        self._joined_count -= 1
        self._send_waiting()

    def close(self) -> None:
        """Implements `JudgeSession`."""
        for task in (*self._tasks, *self._early_tasks.values()):
            task.cancel()

    def _send_waiting(self) -> None:
        """Send what waits, where nobody else is about to ask."""
        if self._joined_count or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        task = asyncio.create_task(self._ask_for_all(waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_for_all(self, waiting: Sequence[tuple[Sequence[JudgeQuestion], float, asyncio.Future[list[JudgeAnswer]]]]) -> None:
        questions = [question for some, _, _ in waiting for question in some]
        try:
            answers = iter(await self._ask(questions, max(limit_s for _, limit_s, _ in waiting)))
        except Exception as error:  # whoever waits is to know, whatever went wrong
            for _, _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for some, _, future in waiting:
            given = [next(answers) for _ in some]
            if not future.done():
                future.set_result(given)

    async def _ask(self, questions: Sequence[JudgeQuestion], timeout_s: float) -> list[JudgeAnswer]:
        timeout_s = min(timeout_s, max(_SHORTEST_S, left_s() * SHARE_OF_TIME))
        facts = self._exchange.facts
        facts.judge = use = facts.judge or JudgeUse(self.name)
        answers = await self._judge.answers(questions, self._exchange.client, use, timeout_s)
        if any(answer.problem and not answer.probabilities for answer in answers):
            self._warn_client(use)
        return answers

    def _warn_client(self, use: JudgeUse) -> None:
        """A code for the client, once: the built-in models' word stands."""
        if not use.failed:
            return
        code = JUDGE_OVER_BUDGET if JUDGE_OVER_BUDGET in use.failed else JUDGE_UNAVAILABLE
        if all(verdict.code != code for verdict in self._exchange.verdicts):
            self._exchange.verdicts.append(Verdict(self._stage, "unchecked", code, detail={"judge": self.name, "failed": list(use.failed)}))


def make_judge(options: JudgeOptions | None, ports: Ports, policy: str = "") -> Judge:
    """The judge of the policy of this name."""
    if options is None or options.kind == "builtin":
        return Builtin(options.model if options is not None else "")
    readout: Readout
    if options.kind == "decisions":
        readout = DecisionReadout(ports.decisions, options)
    elif options.readout == "logprobs":
        readout = TokenReadout(ports.chat, options)
    else:
        readout = ChatReadout(ports.chat, options)
    name = f"{policy}/{options.upstream}/{options.model}"
    return UpstreamJudge(readout, options, DailyBudget(options.max_usd_per_day, spending=ports.spending, name=name))


def apply_temperature(probabilities: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Probabilities whose logits are divided by `temperature` (Guo et al., "On Calibration of Modern Neural Networks", 2017)."""
    if temperature == 1.0 or not probabilities:
        return dict(probabilities)
    powers = {choice: p ** (1 / temperature) for choice, p in probabilities.items()}
    total = sum(powers.values()) or 1.0
    return {choice: p / total for choice, p in powers.items()}


def batches(questions: Sequence[JudgeQuestion], most: int, max_chars: int = MAX_CALL_CHARS) -> Iterator[list[int]]:
    """Positions, a call at a time: of one purpose, those with the same evidence beside each other, within the bounds of one call."""
    first: dict[tuple[str, tuple[str, ...]], int] = {}
    for i, question in enumerate(questions):
        first.setdefault((question.purpose, question.evidence), i)
    order = sorted(range(len(questions)), key=lambda i: (questions[i].purpose, first[questions[i].purpose, questions[i].evidence]))
    call: list[int] = []
    chars = 0
    for i in order:
        question, last = questions[i], questions[call[-1]] if call else None
        alone = len(question.statement) + sum(map(len, question.evidence))
        more = len(question.statement) if last is not None and last.evidence == question.evidence else alone
        if last is not None and (len(call) >= most or chars + more > max_chars or last.purpose != question.purpose):
            yield call
            call, chars, more = [], 0, alone
        call.append(i)
        chars += more
    if call:
        yield call


def _problem(error: Exception) -> str:
    """What went wrong, for the record, which clients may read: not what the provider wrote, that may be of the operator's account."""
    if isinstance(error, UpstreamRefused):
        return f"the judge's upstream refused the question with status {error.upstream_status}"
    return (str(error) or "no answer in time")[:_MAX_PROBLEM_CHARS]


def _shortened(question: JudgeQuestion) -> JudgeQuestion:
    evidence, left = list[str](), MAX_EVIDENCE_CHARS
    for piece in question.evidence:
        if left <= 0:
            break
        evidence.append(piece[:left])
        left -= len(piece)
    return replace(question, statement=question.statement[:MAX_STATEMENT_CHARS], evidence=tuple(evidence))


def _key(client: str, question: JudgeQuestion) -> int:
    return key_of(client, question.purpose, question.language, question.statement, *question.evidence)
