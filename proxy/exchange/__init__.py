"""What flows through the house: one request and its answer, as an `Exchange`.

Made once by a dialect in `proxy.wire.dialect`, read and replaced by stages, turned into upstream bytes by the dialect, into headers
by `proxy.wire.http.headers` and into a record by `proxy.store`. Messages, tools and answers are in OpenAI's chat form whatever dialect the
client spoke, so that no stage needs to know it. `original` is never changed. `messages`, `tools` and `params` are replaced as a
whole and their items are never edited in place: an item that is still the same object is sent upstream in the bytes it came in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from proxy.exchange.wishes import Wishes

if TYPE_CHECKING:
    from proxy.exchange.fact_checks import FactVerdict
    from proxy.exchange.judgements import Claim, Judgement

Message = Mapping[str, Any]
"""One chat message in OpenAI's form: ``role``, ``content`` and whatever else the client sent."""
Tool = Mapping[str, Any]
"""One tool in OpenAI's form: ``{"type": "function", "function": {...}}``."""
Outcome = Literal["pass", "unchecked", "warn", "upstream_error", "error", "block"]
OUTCOMES: tuple[Outcome, ...] = ("unchecked", "pass", "warn", "upstream_error", "error", "block")
"""From the mildest to the worst: one check that held makes an exchange more than ``unchecked``; an upstream that failed gave no answer to
rely on, whatever was found before; a check that could not run leaves open whether the policy would have refused; a block is certain."""
Would = Literal["", "edit", "answer", "ask", "retry", "block"]
"""What a stage of a policy in shadow mode would have done."""
QUIET: tuple[Outcome, ...] = ("unchecked", "pass")
"""Outcomes that warn of nothing: their codes are facts for the record."""


def tool_name(tool: Tool) -> str:
    """A tool's name, "" when it has none (a provider's built-in tool)."""
    described = tool.get(str(tool.get("type", "function")))
    name = described.get("name") if isinstance(described, Mapping) else None
    return name if isinstance(name, str) else ""


class Verdict(Struct, frozen=True):
    """What one stage found.

    ``pass``: something was checked, and held. ``unchecked``: there was nothing to check, nothing to check it against, or only something
    to count. ``error``: a check could not run, which is never a ``pass``. ``upstream_error``: the upstream gave no whole answer.
    """

    stage: str
    """The stage's name, as in the policy."""
    outcome: Outcome
    code: str = ""
    """Short identifier, as in ``x-groundwire-warnings`` and in an error's ``param``: ``context_usage_high``."""
    score: float | None = None
    """0 to 1, where the stage has one."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the record: numbers and pointers, JSON-able, no text of the conversation unless the stage needs it."""
    message: str = ""
    """For the client, when the outcome is block: what is wrong and what would help."""
    replacement: str | None = None
    """From a sentence check: the text that goes out instead of the sentence, within its white space; "" removes both, white space alone
    stands for both."""
    would: Would = ""
    """Under a policy that is not enforced: what it would have done."""


class Found(Protocol):
    """A verdict, of an exchange or of its record."""

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""

    @property
    def code(self) -> str:
        """Short identifier."""


def warning_codes(verdicts: Sequence[Found]) -> list[str]:
    """Codes of every verdict that is not one of `QUIET`, in order, each once."""
    return list(dict.fromkeys(v.code for v in verdicts if v.outcome not in QUIET and v.code))


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
    wants: Wishes = Wishes()
    """What the client asks for in `params`."""
    read_wants: Callable[[Mapping[str, Any]], Wishes] = lambda params: Wishes()
    """The dialect's own reader, for parameters that were replaced."""
    passages: tuple[Evidence, ...] = ()
    """``groundwire.context`` of the body."""
    has_context: bool = False
    """Whether the body had a ``groundwire.context``, also an empty one: a search that found nothing."""
    message_hints: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """``messages[i].groundwire`` by position."""
    wire: Any = None
    """The dialect's own memory of the bytes; opaque to everyone else."""
    size: int = 0
    """Bytes of its body: how much a pass over all of it has to read (`proxy.offloop.aside`)."""


class ToolCall(Struct, frozen=True):
    """A call that the model asked for, put together from its deltas."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it; may be invalid."""
    index: int = 0

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments, parsed: empty when there are none, None when they are not a JSON object."""
        try:
            found = msgspec.json.decode(self.arguments) if self.arguments.strip() else {}
        except (msgspec.DecodeError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class Choice(Struct, frozen=True):
    """One of an answer's ``n`` alternatives."""

    index: int
    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    """What providers send as ``reasoning_content`` or ``reasoning``; not part of the answer."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None


class Usage(Struct, frozen=True):
    """Token counts as the upstream reported them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """The part of the prompt that the provider read from its cache."""


class Answer(Struct, frozen=True):
    """An answer put together from one body or from a stream."""

    choices: tuple[Choice, ...]
    model: str = ""
    usage: Usage | None = None
    logprobs: Mapping[int, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    """By choice index, where the upstream gave them: each token of its text with the token's log probability."""
    unread: str = ""
    """Where text stands in it that is not read as part of it: no check has seen that."""

    @property
    def text(self) -> str:
        """The first choice's text."""
        return self.choices[0].text if self.choices else ""

    def with_text(self, index: int, text: str) -> Answer:
        """A copy in which choice `index` says `text`."""
        return replace(self, choices=tuple(replace(c, text=text) if c.index == index else c for c in self.choices))

    def with_refusal(self, index: int, text: str) -> Answer:
        """A copy in which choice `index` refuses with `text`."""
        return replace(self, choices=tuple(replace(c, refusal=text) if c.index == index else c for c in self.choices))

    def with_calls(self, index: int, calls: Sequence[ToolCall]) -> Answer:
        """A copy in which choice `index` makes `calls`: its own, but for their arguments."""
        return replace(self, choices=tuple(replace(c, tool_calls=tuple(calls)) if c.index == index else c for c in self.choices))

    def changed_texts(self, before: Answer) -> dict[int, str]:
        """The texts that differ from those of `before`, by choice."""
        return {new.index: new.text for old, new in zip(before.choices, self.choices, strict=True) if old.text != new.text}

    def changed_refusals(self, before: Answer) -> dict[int, str]:
        """The refusals that differ from those of `before`, by choice."""
        return {new.index: new.refusal for old, new in zip(before.choices, self.choices, strict=True) if old.refusal != new.refusal}

    def changed_arguments(self, before: Answer) -> dict[int, dict[int, str]]:
        """The arguments that differ from those of `before`, by choice and by the call's index."""
        found: dict[int, dict[int, str]] = {}
        for old, new in zip(before.choices, self.choices, strict=True):
            for was, call in zip(old.tool_calls, new.tool_calls, strict=True):
                if was.arguments != call.arguments:
                    found.setdefault(new.index, {})[call.index] = call.arguments
        return found


class Sentence(Struct, frozen=True):
    """One sentence of a streaming answer, as the gate hands it to a stage."""

    text: str
    """With the white space around it."""
    choice: int
    index: int
    """0-based, within its choice."""
    offset: int
    """Characters of the choice's text before it."""
    final: bool
    """Whether the choice ended with it (it may then lack its full stop)."""


class ContextUse(Struct, frozen=True):
    """Tokens of a prompt against its model's window."""

    used_tokens: int
    window_tokens: int | None = None
    """None when the model's window is not known."""
    exact: bool = False
    """False when the model's tokenizer is not public, or something in the request is counted by rule of thumb."""
    components: Mapping[str, int] = field(default_factory=dict)
    """Tokens by component, in the names of the budget's allocations."""

    @property
    def share(self) -> float:
        """Used part of the window, 0 when it is not known."""
        return self.used_tokens / self.window_tokens if self.window_tokens else 0.0


class CompressionResult(Struct, frozen=True):
    """What compression did: strategies in order, tokens before and after; or why it did nothing."""

    strategies: tuple[str, ...] = ()
    """``stored`` alone where only an earlier request's compaction was repeated."""
    before_tokens: int = 0
    after_tokens: int = 0
    reason: str = ""
    """Why nothing was done: ``below-threshold``, ``nothing-left``, ``skipped`` (the window is not known), ``failed-kept-original``."""
    found_share: float = 0.0
    """Used part of the window when it set to work, with what was decided earlier repeated; 0 where it had nothing to do."""


class ToolSelection(Struct, frozen=True):
    """How many of the offered tools go to the model; the reason when it is all of them."""

    offered: int
    kept: int
    reason: str = ""


class Facts(Struct, omit_defaults=True):
    """The figures behind the response headers; each is None until a stage sets it."""

    context_before: ContextUse | None = None
    """The prompt as the client sent it."""
    context: ContextUse | None = None
    """The prompt as sent upstream."""
    output_reserve_tokens: int | None = None
    """Tokens of the window that are kept free for the answer."""
    compression: CompressionResult | None = None
    tools: ToolSelection | None = None
    quality: float | None = None
    """Overall score of the answer, 0 to 1."""
    quality_parts: Mapping[str, float] | None = None
    """What `quality` is made of, each 0 to 1 (`proxy.grounding.quality`)."""
    faithfulness: float | None = None
    """Share of checkable claims that the context supports, 0 to 1."""
    citations: tuple[int, int] | None = None
    """Verified and total."""
    confidence: str | None = None
    """HIGH, MEDIUM, LOW or none, with ``;overclaimed`` where the evidence does not carry it."""
    relevance: float | None = None
    """Calibrated relevance of the context to the question, 0 to 1."""
    clashes: int | None = None
    failures_injected: int | None = None
    retries: int | None = None
    """How often the upstream was asked for another answer."""


class FactCheck(Protocol):
    """Asks the policy's knowledge base; implemented in `proxy.grounding.knowledge.checking`."""

    async def version(self) -> str:
        """Of the knowledge base as it is now. Raises `ModelUnavailable`."""

    async def verify_many(self, claims: Sequence[str], *, tongue: str = "", deadline_s: float | None = None) -> list[FactVerdict]:
        """A verdict for each claim, in order, all from one version of the knowledge base. Never raises for a check that cannot run."""

    async def judge(self, claims: Sequence[Claim], *, tongue: str = "", deadline_s: float | None = None) -> list[Judgement | None]:
        """A judgement for each claim of an answer; None where the knowledge base has nothing to say to it."""


class Attempt(Struct):
    """What is known of one upstream answer beside what it says."""

    upstream: str
    """Name of the upstream that gave it."""
    ms: float
    """From its call to its last byte."""
    messages: Sequence[Message]
    """As sent for it, with `tools` and `params`."""
    tools: Sequence[Tool]
    params: Mapping[str, Any]
    before: Facts
    """The facts before any stage looked at it."""
    facts: Facts | None = None
    """The facts when another attempt was asked for; None as long as it is the present one."""
    verdicts: Sequence[Verdict] = ()
    """What the stages found of it until then, with `judgements` and `changes`."""
    judgements: dict[int, list[Judgement]] = field(default_factory=dict)
    changes: Sequence[Mapping[str, Any]] = ()
    answer: Answer | None = None
    """What the stages had made of it until then; None as long as it is the present one."""


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
    messages: Sequence[Message]
    """What goes upstream now. Replace, do not edit."""
    tools: Sequence[Tool]
    """What goes upstream now. Replace, do not edit."""
    params: Mapping[str, Any]
    """What goes upstream now. Replace, do not edit; `wants` follows."""
    cleaned: Sequence[Message] | None = None
    """The client's messages as the stages that clean the context leave them, one for each; None where nothing was taken out."""
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
    evidence: list[Evidence] = field(default_factory=list)
    """What the answer may rest on, also what has left the prompt."""
    knowledge: FactCheck | None = None
    """The knowledge base that claims are checked against, set by the stage `knowledge`. `evidence` has the facts that bear on the question;
    those that bear on a claim of the answer, or of new content, are found when it is judged."""
    passages: Sequence[Evidence] = ()
    """Retrieved passages that the prompt should rest on, in the order to show them; a subset of `evidence`. Replace, do not edit:
    a stage may leave some out. Those of ``groundwire.context`` have no `message_index`: they do not stand in the prompt yet."""
    retrieval_tools: Sequence[str] = ()
    """The policy's name patterns of tools whose results are passages."""
    answer: Answer | None = None
    """The answer as it goes to the client. Replace, do not edit."""
    gated: bool = False
    """Whether the answer's sentences were judged one by one as they left."""
    marked: dict[int, str] = field(default_factory=dict)
    """By choice: the answer with the marks (citations, ratings) that the proxy itself asked for, where a stage has taken them out."""
    upstream_answer: Answer | None = None
    """The answer as it came."""
    unanswered: Unanswered | None = None
    """Set where there is no answer to learn from."""
    retry: Sequence[Message] | None = None
    """Set by a stage in `on_answer`: the messages to ask the upstream with once more instead of delivering this answer. No stage
    behind it sees the answer; the delivery takes it back to None, asks, and runs the answer's hooks on what comes."""
    can_retry: bool = False
    """Whether `retry` would be followed. False under gate and tap, when the bounds of attempts or time are reached, and when another
    attempt has failed (a verdict ``retry_failed`` says so): the hooks then run once more on the answer before it, and must decide. A
    `retry` that is set all the same is dropped with the verdict ``retry_impossible``."""
    attempts: list[Answer] = field(default_factory=list)
    """The upstream's answers that were held to be judged, in order, as they came; the last is the present one. What stages found of
    an answer that another was asked for after (verdicts, facts, judgements, changes) moves to `trail`."""
    trail: list[Attempt] = field(default_factory=list)
    """What is known of each of `attempts`, by position."""
    deliver: int | None = None
    """Which of `attempts` to deliver, set by a stage that prefers an earlier one; None is the last. `answer` is then what that stage
    made of it, or, where it leaves `answer` as it was, what the stages before it had made of that attempt; stages behind it see that
    answer, with what the stages before it had found of it."""
    judgements: dict[int, list[Judgement]] = field(default_factory=dict)
    """What the stage `claims` found of each statement, by choice, in order; positions are those of `upstream_answer`'s text. Claims
    that were not judged are there too, as ``not_checkable`` or ``error``."""
    verdicts: list[Verdict] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    timings: dict[str, float] = field(default_factory=dict)
    """Milliseconds by stage and hook (``budget.request``); ``between_ms`` that the proxy took between two calls of the upstream,
    ``after_ms`` from the upstream's last byte to the answer's leaving."""
    changes: list[Mapping[str, Any]] = field(default_factory=list)
    """What each stage changed, for the record: ``{"stage", "what", ...}``."""
    marks: list[HookMark] | None = None
    """Every run of a hook, in the order of their ends; None where nobody asks for them (they are what a trace is made of)."""

    @property
    def wants(self) -> Wishes:
        """What goes upstream now asks for: `original.wants`, as long as nobody replaced `params`."""
        request = self.original
        return request.wants if self.params is request.params else request.read_wants(self.params)

    @property
    def conversation(self) -> Sequence[Message]:
        """What the client said, as far as it may be used: what its compaction, its evidence and its tools go by."""
        return self.original.messages if self.cleaned is None else self.cleaned

    @property
    def outcome(self) -> Outcome:
        """The worst outcome so far, by `OUTCOMES`."""
        return max((verdict.outcome for verdict in self.verdicts), key=OUTCOMES.index, default="unchecked")

    @property
    def warnings(self) -> list[str]:
        """Codes of every verdict that is not one of `QUIET`, in order, each once."""
        return warning_codes(self.verdicts)
