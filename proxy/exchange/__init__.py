"""What flows through the house: one request and its answer, as an `Exchange`.

Made once by a dialect in `proxy.wire.dialect`, read and replaced by stages, turned into upstream bytes by the dialect, into headers
by `proxy.wire.http.headers` and into a record by `proxy.store`. Messages, tools and answers are in OpenAI's chat form whatever dialect the
client spoke, so that no stage needs to know it. `original` is never changed. What a stage may change is two values, the `prompt` and the
`findings`, which the pipeline puts back when a stage fails. `messages`, `tools` and `params` are replaced as a whole and their items are
never edited in place: an item that is still the same object is sent upstream in the bytes it came in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from proxy.exchange.answers import Answer as Answer
from proxy.exchange.answers import Choice as Choice
from proxy.exchange.answers import OutputRequirements
from proxy.exchange.answers import Sentence as Sentence
from proxy.exchange.answers import ToolCall as ToolCall
from proxy.exchange.answers import Usage as Usage
from proxy.exchange.facts import Attempts
from proxy.exchange.facts import CompressionResult as CompressionResult
from proxy.exchange.facts import ContextUse as ContextUse
from proxy.exchange.facts import Facts as Facts
from proxy.exchange.facts import JudgeUse as JudgeUse
from proxy.exchange.facts import ToolSelection as ToolSelection
from proxy.exchange.histories import History
from proxy.exchange.verdicts import OUTCOMES as OUTCOMES
from proxy.exchange.verdicts import QUIET as QUIET
from proxy.exchange.verdicts import Outcome as Outcome
from proxy.exchange.verdicts import Verdict as Verdict
from proxy.exchange.verdicts import VerdictView as VerdictView
from proxy.exchange.verdicts import Would as Would
from proxy.exchange.verdicts import unchecked_reason as unchecked_reason
from proxy.exchange.verdicts import warning_codes as warning_codes
from proxy.exchange.verdicts import worst_outcome
from proxy.offloop import Allowance

if TYPE_CHECKING:
    from proxy.exchange.judgements import Claim, FactVerdict, Judgement

T = TypeVar("T")
CHECKS_CPU_S = 2.0
"""Processor time of all checks of one exchange with `LARGE` characters or less."""
Message = Mapping[str, Any]
"""One chat message in OpenAI's form: ``role``, ``content`` and whatever else the client sent."""
Tool = Mapping[str, Any]
"""One tool in OpenAI's form: ``{"type": "function", "function": {...}}``."""


def tool_name(tool: Tool) -> str:
    """A tool's name, "" when it has none (a provider's built-in tool)."""
    described = tool.get(str(tool.get("type", "function")))
    name = described.get("name") if isinstance(described, Mapping) else None
    return name if isinstance(name, str) else ""


class Evidence(Struct, frozen=True):
    """A piece of text that an answer may rest on; kept also when its message has left the prompt."""

    content: str
    """The text, unchanged."""
    source: str = ""
    """Where it comes from: a file, an address, a tool's name."""
    kind: Literal["passage", "tool_result", "user", "system", "assistant", "knowledge"] = "passage"
    """What sort of context it was."""
    message_index: int | None = None
    """Position in `Request.messages`, if it stood there."""
    score: float | None = None
    """The retriever's own score, if it gave one."""
    timestamp: float | None = None
    """Seconds since the epoch, if known."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the client said about it."""


class Request(Struct, frozen=True):
    """A request as it came, parsed. Never changed."""

    model: str
    """The model's name as the client sent it."""
    messages: tuple[Message, ...]
    """All messages, without the ``groundwire`` field of any."""
    tools: tuple[Tool, ...]
    """All tools; the legacy ``functions`` are given in this form too."""
    params: Mapping[str, Any]
    """Every other field of the body, as it stands there: for the dialect, the upstream and the record. What they mean is in `wants`."""
    stream: bool
    """Whether the client asked for server-sent events."""
    wants: OutputRequirements = OutputRequirements()
    """What the client asks for in `params`."""
    read_wants: Callable[[Mapping[str, Any]], OutputRequirements] = lambda params: OutputRequirements()
    """The dialect's own reader, for parameters that were replaced."""
    passages: tuple[Evidence, ...] = ()
    """``groundwire.context`` of the body."""
    has_context: bool = False
    """Whether the body had a ``groundwire.context``, also an empty one: a search that found nothing."""
    message_hints: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """``messages[i].groundwire`` by position."""
    wire: Any = None
    """The dialect's own memory of the bytes; opaque to everyone else."""
    brings: int = 0
    """How many of the messages, the last ones, stand in its own body as the conversation: neither instructions nor what the provider holds.
    0 where the API knows no other."""
    goes_on_from: str = ""
    """What it names instead of bringing it (`proxy.exchange.histories`); "" where it brings all of the conversation."""
    unseen_items: int = 0
    """How much of the conversation that it brings it only names, or brings so that only the provider can read it."""
    references: tuple[str, ...] = ()
    """Ids of what it only names."""
    with_items: Callable[[Mapping[str, Mapping[str, Any]]], Request] | None = None
    """The same request, read with what is known of those."""
    with_history: Callable[[History], Request] | None = None
    """The same request with what is remembered of that before its own messages."""
    server_side_history: tuple[Message, ...] = ()
    """Those of its messages that are the provider's: nothing of them is sent, and no change of them would be."""
    held_whole: bool = False
    """Whether they are all that was said before."""
    open_results: tuple[Message, ...] = ()
    """Results of the proxy's own tools that the provider waits for, and the client does not know of: they are none of its messages."""
    known_items: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is known of what it only names, by id."""
    keeps: bool = False
    """Whether the provider keeps it and its answer, so that a later request can go on from them by name."""
    size: int = 0
    """Bytes of its body: how much a pass over all of it has to read (`proxy.offloop.run_in_thread_if_large`)."""
    quick_size: int = 0
    """The same for a pass that hashes its messages, or goes from one to the next without reading them."""


class FactCheck(Protocol):
    """Asks the policy's knowledge base; implemented in `proxy.grounding.knowledge.checking`."""

    async def version(self) -> str:
        """Of the knowledge base as it is now. Raises `ModelUnavailable`."""

    async def verify_many(self, claims: Sequence[str], *, tongue: str = "", deadline_s: float | None = None) -> list[FactVerdict]:
        """A verdict for each claim, in order, all from one version of the knowledge base. Never raises for a check that cannot run."""

    async def judge(self, claims: Sequence[Claim], *, tongue: str = "", deadline_s: float | None = None) -> list[Judgement | None]:
        """A judgement for each claim of an answer; None where the knowledge base has nothing to say to it."""


class Unanswered(Struct, frozen=True):
    """Why an exchange ended without an answer: the upstream gave none, or the prompt does not fit."""

    code: str
    """The proxy's own error code (``upstream_timeout``, ``context_length_exceeded``), or the provider's, "" where it gave none."""
    status: int
    """HTTP status that the client got."""
    retry_after_s: float | None = None
    """How long the provider asks to wait."""


class HookMark(Struct, frozen=True):
    """That a stage's hook ran; times by `time.perf_counter`."""

    stage: str
    hook: str
    started: float
    ended: float
    verdict: Verdict | None = None


class Prompt(Struct, frozen=True):
    """What goes upstream, and what its answer may rest on. Replaced as a whole (`Exchange.messages` and so on do that), never edited."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    params: Mapping[str, Any]
    cleaned: Sequence[Message] | None = None
    """The client's messages as the stages that clean the context leave them, one for each; None where nothing was taken out."""
    evidence: tuple[Evidence, ...] = ()
    """What the answer may rest on, also what has left the prompt."""
    passages: Sequence[Evidence] = ()
    """Retrieved passages that the prompt should rest on, in the order to show them; a subset of `evidence`. A stage may leave some out.
    Those of ``groundwire.context`` have no `message_index`: they do not stand in the prompt yet."""
    knowledge: FactCheck | None = None
    """The knowledge base that claims are checked against, set by the stage `knowledge`. `evidence` has the facts that bear on the question;
    those that bear on a claim of the answer, or of new content, are found when it is judged."""
    server_tools: tuple[Tool, ...] = ()
    """Tools of the operator's servers that are offered beside the client's (the stage `mcp`), whose calls the proxy answers."""


class Findings(Struct):
    """What the stages have found so far, and made of the answer."""

    answer: Answer | None = None
    """The answer as it goes to the client. Replace, do not edit."""
    verdicts: list[Verdict] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    changes: list[Mapping[str, Any]] = field(default_factory=list)
    """What each stage changed, for the record: ``{"stage", "what", ...}``."""
    judgements: dict[int, Sequence[Judgement]] = field(default_factory=dict)
    """What the stage `claims` found of each statement, by choice, in order; positions are those of `upstream_answer`'s text. Claims
    that were not judged are there too, as ``not_checkable`` or ``error``."""
    retry: Sequence[Message] | None = None
    """Set by a stage in `on_answer`: the messages to ask the upstream with once more instead of delivering this answer. No stage
    behind it sees the answer. Where no other can be had (`Attempts.possible`) it is dropped with the verdict ``retry_impossible``."""
    deliver: int | None = None
    """Which of `attempts` to deliver, set by a stage that prefers an earlier one; None is the last. `answer` is then what that stage
    made of it, or, where it leaves `answer` as it was, what the stages before it had made of that attempt; stages behind it see that
    answer, with what the stages before it had found of it."""

    def copy(self) -> Findings:
        """The same, which nothing that is done to these changes."""
        facts, judgements = replace(self.facts), {**self.judgements}
        return Findings(self.answer, self.verdicts[:], facts, self.changes[:], judgements, self.retry, self.deliver)


class Snapshot(Struct, eq=False):
    """What a stage may change, as it was before one of its hooks ran."""

    prompt: Prompt
    findings: Findings
    marked: Mapping[int, int]
    """How long each of `Exchange.marked` was."""
    shared: bool
    """Whether another hook ran at the same time, so that not every change since is this one's."""


class _Part(property, Generic[T]):
    """A field of the exchange's prompt or findings, to be read and replaced as the exchange's own."""

    def __init__(self, value: Literal["prompt", "findings"], name: str) -> None:
        def replaced(exchange: Exchange, new: T) -> None:
            exchange.prompt = replace(exchange.prompt, **{name: new})

        def put(exchange: Exchange, new: T) -> None:
            setattr(exchange.findings, name, new)

        super().__init__(attrgetter(f"{value}.{name}"), replaced if value == "prompt" else put)

    if TYPE_CHECKING:  # what is built in does it at run time

        def __get__(self, exchange: Any, owner: type | None = None) -> T: ...  # type: ignore[override]

        def __set__(self, exchange: Any, new: T) -> None: ...


class Exchange(Struct):
    """One request and its answer on their way through a policy."""

    id: str
    """Record id, as in ``x-groundwire-id``."""
    route: str
    """Prefix of the route that took it."""
    policy: str
    """``NAME@hash8`` of the policy that applies."""
    upstream: str
    """Name of the upstream, as in config.yaml; the one that answered, once it did."""
    client: str
    """Whose it is: the name of the client's key, or a hash of its ``Authorization``. Nothing of one client's is shown to, or
    used for, another."""
    original: Request
    """The request as it came."""
    model: str
    """The name the model catalogue knows the model by (with the upstream's prefix)."""
    prompt: Prompt
    findings: Findings = field(default_factory=Findings)
    run_id: str = ""
    """The agent's run: its header, or derived from client, route and the conversation's stable prefix."""
    step_id: str = ""
    """The run's step: its header, or the number of assistant turns so far plus one."""
    skip: frozenset[str] = frozenset()
    """Stages that the client left out (``all`` leaves out every one)."""
    enforced: bool = True
    """Whether the policy acts; false in shadow mode, where it only judges and records."""
    inline: bool = False
    """Whether the verdict also goes into the body."""
    received_at: float = field(default_factory=time.time)
    """Seconds since the epoch."""
    retrieval_tools: Sequence[str] = ()
    """The policy's name patterns of tools whose results are passages."""
    gated: bool = False
    """Whether the answer's sentences were judged one by one as they left."""
    marked: dict[int, str] = field(default_factory=dict)
    """By choice: the answer with the marks (citations, ratings) that the proxy itself asked for, where a stage has taken them out. Only
    added to, sentence by sentence: of a long answer no copy is made for each."""
    upstream_answer: Answer | None = None
    """The answer as it came."""
    open_results: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """By the id of an answer that its provider keeps: results of the calls of the proxy's own tools that were taken out of it."""
    unanswered: Unanswered | None = None
    """Set where there is no answer to learn from."""
    attempts: Attempts = field(default_factory=Attempts)
    """The upstream's answers that were held to be judged."""
    rounds: int = 0
    """How often the upstream was called again with results of the proxy's own tools."""
    timings: dict[str, float] = field(default_factory=dict)
    """Milliseconds by stage and hook (``budget.request``); ``between_ms`` that the proxy took between two calls of the upstream,
    ``after_ms`` from the upstream's last byte to the answer's leaving."""
    marks: list[HookMark] | None = None
    """Every run of a hook, in the order of their ends; None where nobody asks for them (they are what a trace is made of)."""
    work: Allowance = field(default_factory=partial(Allowance, CHECKS_CPU_S))
    """Processor time that its stages may take, all together."""
    memo: dict[str, tuple[tuple[object, ...], Any]] = field(default_factory=dict)
    """See `once`."""
    running: list[Snapshot] = field(default_factory=list)
    """Of each hook that runs now: under gate, the sentences of several choices are judged at once, and tools called meanwhile."""

    messages = _Part[Sequence[Message]]("prompt", "messages")
    tools = _Part[Sequence[Tool]]("prompt", "tools")
    params = _Part[Mapping[str, Any]]("prompt", "params")
    cleaned = _Part["Sequence[Message] | None"]("prompt", "cleaned")
    evidence = _Part[tuple[Evidence, ...]]("prompt", "evidence")
    passages = _Part[Sequence[Evidence]]("prompt", "passages")
    knowledge = _Part["FactCheck | None"]("prompt", "knowledge")
    server_tools = _Part[tuple[Tool, ...]]("prompt", "server_tools")
    answer = _Part["Answer | None"]("findings", "answer")
    verdicts = _Part[list[Verdict]]("findings", "verdicts")
    facts = _Part[Facts]("findings", "facts")
    changes = _Part[list[Mapping[str, Any]]]("findings", "changes")
    judgements = _Part["dict[int, Sequence[Judgement]]"]("findings", "judgements")
    retry = _Part["Sequence[Message] | None"]("findings", "retry")
    deliver = _Part["int | None"]("findings", "deliver")

    def once(self, what: str, given: tuple[object, ...], work: Callable[[], T]) -> T:
        """What `work`, named by `what`, makes of the same `given` objects: made once for all stages. Nobody may change it."""
        known = self.memo.get(what)
        if known is None or len(known[0]) != len(given) or any(map(is_not, known[0], given)):
            self.memo[what] = known = given, work()
        made: T = known[1]
        return made

    def begin(self, *, beside: bool = False) -> Snapshot:
        """A stage's hook runs from now on, until this snapshot leaves `running`; `beside` what is no hook and changes the exchange, too."""
        marked = {choice: len(text) for choice, text in self.marked.items()} if self.marked else {}
        snapshot = Snapshot(self.prompt, self.findings.copy(), marked, beside or bool(self.running))
        for other in self.running:
            other.shared = True
        self.running.append(snapshot)
        return snapshot

    def undo(self, snapshot: Snapshot, *, prompt: bool = True) -> None:
        """Put back what was there before the hook; of what others may have changed meanwhile, only the `prompt`."""
        if prompt or not snapshot.shared:
            self.prompt = snapshot.prompt
        if not snapshot.shared:
            asked, self.findings = self.facts.judge, snapshot.findings
            self.facts.judge = asked  # it was paid, whatever came of it
            self.marked = {choice: self.marked[choice][:length] for choice, length in snapshot.marked.items()}

    @property
    def wants(self) -> OutputRequirements:
        """What goes upstream now asks for: `original.wants`, as long as nobody replaced `params`."""
        request = self.original
        return request.wants if self.params is request.params else request.read_wants(self.params)

    @property
    def conversation(self) -> Sequence[Message]:
        """What the client said, as far as it may be used: what its compaction, its evidence and its tools go by."""
        return self.original.messages if self.cleaned is None else self.cleaned

    @property
    def catalogue(self) -> Sequence[Tool]:
        """All tools that its model may come to see, but for the proxy's own: the client's, then those of the operator's servers."""
        return (*self.original.tools, *self.server_tools) if self.server_tools else self.original.tools

    @property
    def outcome(self) -> Outcome:
        """What the verdicts so far come to."""
        return worst_outcome(self.verdicts)

    @property
    def warnings(self) -> list[str]:
        """Codes of every verdict that is not one of `QUIET`, in order, each once."""
        return warning_codes(self.verdicts)
