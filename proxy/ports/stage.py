"""The smallest interface: a stage and its options.

A stage sees an `Exchange` on its way to the model (`on_request`), once more when every stage has had its turn (`on_forward`), and
with its answer (`on_answer`); under gate delivery a `SentenceStage` also judges each sentence before it leaves. It returns a
`Verdict` or nothing. It may raise a `ProxyError` to end the request; any other exception is the pipeline's to catch.

Stages, models and the store do not import each other: a stage gets what it needs through `proxy.ports.Ports`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal

from msgspec import Meta, Struct

from proxy.exchange import CHECKS_CPU_S, OUTCOMES, Exchange, Facts, Request, Sentence, ToolCall, Verdict, VerdictView, tool_name
from proxy.language.detection import load
from proxy.language.text import replaced, split_sentences
from proxy.offloop import LARGE, Allowance
from proxy.ports import Ports
from proxy.ports.panels import StagePanel

Share = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""
Positive = Annotated[int, Meta(gt=0)]


class StageOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every stage can be told. A stage's own options extend it, each with a `Meta(description=…)`."""

    removed: ClassVar[Mapping[str, str]] = {}
    """Options that a stage had (``name``, or ``name.inner``), each with what to write instead: a policy that has one is refused with it."""
    enabled: Annotated[bool, Meta(description="false leaves the stage out")] = True
    on_error: Annotated[
        Literal["open", "closed"],
        Meta(description="when the check cannot run: go on without it (open) or refuse the request (closed)"),
    ] = "open"
    timeout_ms: Annotated[
        float, Meta(gt=0, description="time budget of each of its hooks, in milliseconds; past it the stage is an error")
    ] = 5000
    cpu_ms: Annotated[
        float,
        Meta(
            gt=0,
            description="processor time of each of its hooks, in milliseconds, for each 20,000 characters; models' time is not counted",
        ),
    ] = 250


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # `typing` has defaults from 3.13 on

    OptionsT = TypeVar("OptionsT", bound=StageOptions, default=Any)
    """A stage's own options: a bare `Stage` is one of any."""
else:
    from typing import TypeVar

    OptionsT = TypeVar("OptionsT")

ActionKind = Literal["annotate", "warn", "quarantine", "edit", "ask", "block"]


class Action(Struct, frozen=True):
    """Something that a stage may do about what it finds. To shorten a prompt or to choose tools is none: nothing was found wrong."""

    kind: ActionKind
    """``block`` is a refusal, and an answer in the model's stead; ``edit`` changes the prompt or the answer."""
    code: str
    """Of the verdict that tells of it, or what it is about."""
    exact: bool = False
    """Whether it follows from counting, from looking something up, from a schema or from the policy's own words, so that there is nothing
    to be mistaken about.
    """


class CounterFamily(Struct, frozen=True):
    """A labelled figure that counts what some dotted counters of a stage count, by what is different in their names."""

    name: str
    help: str
    label: str
    pattern: str
    """A regular expression of the counters' names, whose group is the label's value."""


class ToolFailed(Exception):
    """A call of an own tool has failed; the model is told `text`."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.text, self.code = text, code


class Stage(Generic[OptionsT]):
    """One step of a policy. Subclasses set the class attributes and override the hooks they need."""

    name: ClassVar[str]
    """As in the policy file."""
    checks: ClassVar[bool] = True
    """Whether it looks for what is wrong: then its processor time is taken from the exchange's, which is bounded. False for a stage that
    makes the prompt fit, which has to be done."""
    Options: ClassVar[type[StageOptions]] = StageOptions
    requires: ClassVar[tuple[str, ...]] = ()
    """Facts that an earlier stage must assign: a policy without one is refused when it is loaded."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Stages that must stand before it in a policy that has both."""
    assigns: ClassVar[tuple[str, ...]] = ()
    """Facts that later stages may require."""
    changes: ClassVar[tuple[str, ...]] = ()
    """What it may replace: ``messages``, ``tools``, ``params``, ``answer``."""
    headers: ClassVar[tuple[StageHeader, ...]] = ()
    """Headers of the response that are its own."""
    reports: ClassVar[tuple[str, ...]] = ()
    """Warning codes it may set, and headers that are not its alone, for ``groundwire explain``."""
    panel: ClassVar[type[StagePanel] | None] = None
    """Its panel of the dashboard."""
    counters: ClassVar[Mapping[str, str]] = {}
    """What each of its dotted counters counts, by name: those are in the metrics from the start, at 0."""
    families: ClassVar[tuple[CounterFamily, ...]] = ()
    """Of its counters. A stage that is not Groundwire's own has none."""
    shortens_history: ClassVar[bool] = False
    """Whether it shortens the conversation: left out where the provider holds a part of that, of which nothing can be taken."""
    reads_passages: ClassVar[bool] = False
    """Whether it needs `exchange.passages`, and `exchange.evidence` to hold the passages found in the messages, too."""
    verifies: bool = False
    """Whether it uses `ports.verifiers`: the built-in verifier is loaded at start where a route's own policy has such a stage and
    ``load_models: at_start``. One that has an option for it overrides `local_models`."""
    retryable: ClassVar[frozenset[str]] = frozenset()
    """Codes of its errors after which the same request may succeed: under ``on_error: closed`` they end it with 503 and not with 400."""
    measures: ClassVar[bool] = False
    """Whether its `on_forward` measures what is sent: it runs behind those of all other stages."""
    answers_after: ClassVar[tuple[str, ...]] = ()
    """Stages whose answer hook runs before its own, wherever the policy lists them: the list's order is the request's."""
    answers_with: ClassVar[tuple[str, ...]] = ()
    """Stages whose findings its answer hook works on: in a policy that has none of them it is not called, and no answer waits for it."""
    embeds: bool = False
    """Whether it uses `ports.embedder` or `ports.ranker`: they are loaded at start where a route's own policy has such a stage and
    ``load_models: at_start``. One that has an option for it overrides `local_models`."""
    answers: ClassVar[tuple[str, ...]] = ()
    """Names of tools that it may offer to the model and that the proxy answers itself (`on_tool_call`)."""
    max_rounds: int = 4
    """How often an exchange's calls of its own tools are answered; then the upstream is asked once more, without the proxy's own tools."""
    keeps_from_calls: ClassVar[bool] = False
    """Whether a call changes what the run's next request has: then it is run also where the model calls tools of the client's beside it,
    so that no result can be told. Any other is not run there: the model calls it again when it has the client's results."""
    results_from_outside: ClassVar[bool] = False
    """Whether what its tools give comes from others, as a client's tool results do: `on_tool_result` is called, and it is evidence."""

    def __init__(self, options: OptionsT, ports: Ports) -> None:
        self.options = options
        self.ports = ports
        self.embeds, self.verifies = self.local_models(options)

    def allowance(self, exchange: Exchange) -> Allowance:
        """Processor time that a hook may take: of the exchange's own, if the stage checks something. Both grow with what there is to read,
        since a check takes a time for each character, so that the length of ordinary text never cuts its check short.
        """
        if not self.checks:
            return Allowance(math.inf)
        size, work = exchange.original.size, exchange.work
        if exchange.answer is not None:
            for choice in exchange.answer.choices:
                size += len(choice.text)
        share = 1 + size / LARGE
        if work.limit_s < CHECKS_CPU_S * share:
            work.limit_s = CHECKS_CPU_S * share
        return work.part(self.options.cpu_ms / 1000 * share)

    def warm(self) -> None:
        """Read and compile what the first request would wait for: of every stage, the model that tells languages. Called in a thread when
        the server starts, which does not wait for it; it may have been called before, for another policy.
        """
        load()

    @classmethod
    def blocks_answers(cls, options: OptionsT) -> bool:
        """Whether these options can hold back or change an answer, which ``delivery: tap`` cannot do."""
        return False

    @classmethod
    def needs_hold(cls, options: OptionsT) -> str:
        """Which of these options only ``delivery: hold`` can do, as ``action: retry``; "" where each delivery can."""
        return ""

    @classmethod
    def needs(cls, options: OptionsT) -> tuple[str, ...]:
        """Stages that these options rely on, wherever they stand: a policy without one is refused when it is loaded."""
        return ()

    @classmethod
    def actions(cls, options: OptionsT) -> tuple[Action, ...]:
        """What these options may do to a request or an answer, beyond the record; see `proxy.policy.precision`."""
        return ()

    @classmethod
    def local_models(cls, options: OptionsT) -> tuple[bool, bool]:
        """Whether it `embeds` texts, and whether it `verifies` claims, with these options."""
        return cls.embeds, cls.verifies

    @classmethod
    def judges(cls, options: OptionsT) -> bool:
        """Whether it asks `ports.judge` anything: a policy that names a judge and has no such stage is refused."""
        return bool(cls.verifies)

    @classmethod
    def needs_judge(cls, options: OptionsT) -> str:
        """Which of these options nobody in this process can do, as ``mode: llm``, so that a policy must name a judge; "" where none."""
        return ""

    @classmethod
    def asks(cls, options: OptionsT) -> Mapping[str, str]:
        """Upstreams that these options ask through `ports.chat`, by path inside the options; one that cannot be asked is refused."""
        return {}

    @classmethod
    def tool_servers(cls, options: OptionsT) -> tuple[str, ...]:
        """Servers of ``mcp.servers`` that these options name; one that does not exist is refused."""
        return ()

    @classmethod
    def folders(cls, options: OptionsT) -> Mapping[str, str]:
        """Folders that these options read, by path inside the options; one that is not there is refused. A relative one starts at
        config.yaml.
        """
        return {}

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """The request, before the model sees it. A stage that sets `exchange.answer` answers in the model's stead.

        ``Answer((Choice(0, text),))`` is enough: the client gets it as a completion or a stream with what its request asked for. No
        upstream is called, no later stage is asked.
        """
        return None

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """The request as it is about to be sent, after every stage's `on_request`; again before each further call of the upstream,
        for an answered tool call or for another answer (`Findings.retry`).
        """
        return None

    async def hand_over(self, exchange: Exchange) -> None:
        """Put the passages of ``groundwire.context`` into the prompt, and nothing else. Shadow mode calls it in the place of `on_request`
        before the request is sent: they are the client's own, and nobody else hands them to the model.
        """

    def is_left_out(self, exchange: Exchange) -> bool:
        """Whether it does nothing in this exchange: the client left it out, or the history is not its to shorten."""
        if self.shortens_history and exchange.original.server_side_history:
            return True
        return self.name in exchange.skip or "all" in exchange.skip

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """The result of a call of one of its own tools (`answers`), for the model. It may replace `exchange.tools`.

        `call.parsed` is an object, possibly empty. Raises `ToolFailed` where the call failed without a fault of the stage; any other
        exception or a missed deadline is an ``error``; the model is told.
        """
        raise NotImplementedError

    def answered_tools(self, exchange: Exchange) -> Collection[str]:
        """Names of the tools that it may have offered in this exchange; those of `answers`, unless it knows more."""
        return self.answers

    async def on_tool_result(self, exchange: Exchange, call: ToolCall, result: str, *, failed: bool) -> tuple[str, Verdict | None]:
        """What a tool of `results_from_outside` gave, before the model sees it: as it is to be told, and a verdict on it."""
        return result, None

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """The whole answer, in `exchange.answer`."""
        return None

    def needs_run_identity(self, request: Request) -> bool:
        """Whether it may keep something of the run of such a request for its next ones, or go by what it kept: then conversations that fork
        must be told apart, which the store is asked for. One that may is asked of every request of the run, and says so of each.
        """
        return False

    @property
    def read_only(self) -> bool:
        """Whether its `on_request` leaves the prompt as it is, and nothing that is decided before the call goes by what it finds: then the
        model is asked meanwhile.
        """
        return False

    @property
    def judges_answers(self) -> bool:
        """Whether its options make its `on_answer` look at answers; where not it is not called, and no answer waits for it."""
        return True

    async def on_done(self, exchange: Exchange) -> None:
        """After the answer has left, to learn from it: `exchange.answer` is what the client got. Off the client's path.

        Not called where there was no answer. The exchange's record is already made: nothing is to be changed any more.
        """

    async def on_failed(self, exchange: Exchange) -> None:
        """After an exchange without an answer, to learn from it: `exchange.unanswered` says why. Off the client's path.

        Called where the upstream failed or the prompt did not fit; not where a stage refused, or the client left.
        """

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        """Its `hook` (``request``, ``answer``, …) failed or took too long, and the exchange is as it was before: what is to be said there
        all the same, such as a header's figure.
        """

    def release(self, exchange: Exchange) -> None:
        """The exchange has ended, whatever came of it: let go of what was kept for it, stop what runs for it."""

    async def stop(self) -> None:
        """The server stops: end what runs in the background."""


def can_answer_tools(exchange: Exchange, name: str = "") -> bool:
    """Whether a stage may offer a tool of its own in this exchange: ask before adding one to `exchange.tools`.

    Not where the client asks for several choices or forbids calls, nor where it has a tool called `name` itself.
    """
    possible = exchange.wants.choices == 1 and exchange.wants.calls != "none"
    return possible and not (name and any(tool_name(tool) == name for tool in exchange.original.tools))


def overrides(stage: Stage, hook: str) -> bool:
    """Whether it has a hook of its own."""
    return getattr(type(stage), hook) is not getattr(Stage, hook)


class SentenceStage(Stage[OptionsT]):
    """A stage that judges sentence by sentence: as they leave under ``delivery: gate``, else when the answer is whole."""

    @property
    def judges_sentences(self) -> bool:
        """Whether its options make it look at single sentences; where not, no sentence waits for it."""
        return True

    def by_sentence(self, exchange: Exchange) -> bool:
        """Whether it can judge this exchange's answer so: where not (JSON), the gate holds the answer until it is whole."""
        return True

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """One sentence before it leaves. A block ends the answer; a verdict with `replacement` changes the sentence."""
        return None

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Judge the sentences of an answer that came whole, and of every refusal; override it to do so in one batch, or to sum up."""
        found: list[Verdict] = []
        for choice in exchange.answer.choices if exchange.answer is not None else ():
            text = choice.text if exchange.gated else await self._judge_sentences(exchange, choice.index, choice.text, found)
            refusal = await self._judge_sentences(exchange, choice.index, choice.refusal, found)
            if exchange.answer is not None and (text, refusal) != (choice.text, choice.refusal):
                exchange.answer = exchange.answer.with_text(choice.index, text).with_refusal(choice.index, refusal)
        return max(found, key=lambda v: OUTCOMES.index(v.outcome), default=None)

    async def _judge_sentences(self, exchange: Exchange, choice: int, text: str, found: list[Verdict]) -> str:
        """What is left of `text`, sentence by sentence; verdicts are added to those `found`, and after a block nothing more is judged."""
        said, offset, sentences = [], 0, split_sentences(text)
        for i, words in enumerate(sentences):
            if found and found[-1].outcome == "block":
                break
            verdict = await self.on_sentence(exchange, Sentence(words, choice, i, offset, final=i == len(sentences) - 1))
            said.append(words if verdict is None or verdict.replacement is None else replaced(words, verdict.replacement))
            offset += len(words)
            if verdict is not None:
                found.append(verdict)
        return "".join(said)


class StageHeader(Struct, frozen=True):
    """One header."""

    name: str
    """Without the prefix: small letters, digits and hyphens."""
    meaning: str
    """For docs/reference/headers.md."""
    value: Callable[[Facts, Sequence[VerdictView]], str | None]
    """Of the facts and verdicts so far, also those of a record; None leaves it out. It is encoded and cut as headers need it."""


def score_text(value: float | None) -> str | None:
    """0.00 to 1.00; None for nothing."""
    return None if value is None else f"{value:.2f}"


def count_text(value: int | None) -> str | None:
    """A whole number; None for nothing."""
    return None if value is None else str(value)
