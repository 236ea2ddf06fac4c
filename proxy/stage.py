"""The smallest interface: a stage, its options, and the ports it may ask for.

A stage sees an `Exchange` on its way to the model (`on_request`), once more when every stage has had its turn (`on_forward`), and
with its answer (`on_answer`); under gate delivery a `SentenceStage` also judges each sentence before it leaves. It returns a
`Verdict` or nothing. It may raise a `ProxyError` to end the request; any other exception is the pipeline's to catch.

Stages, models and the store do not import each other: a stage gets what it needs through `Ports`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from msgspec import Meta, Struct

from proxy.exchange import ContextUse, Exchange, Message, Sentence, Tool, ToolCall, Verdict, tool_name
from proxy.grounding.verdicts import ClaimPair, Support
from proxy.text import replaced, split_sentences

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Share = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""
Positive = Annotated[int, Meta(gt=0)]


class StageOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every stage can be told. A stage's own options extend it, each with a `Meta(description=…)`."""

    enabled: Annotated[bool, Meta(description="false leaves the stage out")] = True
    on_error: Annotated[
        Literal["open", "closed"],
        Meta(description="when the check cannot run: go on without it (open) or refuse the request (closed)"),
    ] = "open"
    timeout_ms: Annotated[
        float, Meta(gt=0, description="time budget of each of its hooks, in milliseconds; past it the stage is an error")
    ] = 5000


class Stage:
    """One step of a policy. Subclasses set the class attributes and override the hooks they need."""

    name: ClassVar[str]
    """As in the policy file."""
    Options: ClassVar[type[StageOptions]] = StageOptions
    requires: ClassVar[tuple[str, ...]] = ()
    """Facts that an earlier stage must assign: a policy without one is refused when it is loaded."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Stages that must stand before it in a policy that has both."""
    assigns: ClassVar[tuple[str, ...]] = ()
    """Facts that later stages may require."""
    changes: ClassVar[tuple[str, ...]] = ()
    """What it may replace: ``messages``, ``tools``, ``params``, ``answer``."""
    reports: ClassVar[tuple[str, ...]] = ()
    """Headers and warning codes it may set, for ``groundwire explain``."""
    reads_passages: ClassVar[bool] = False
    """Whether it needs `exchange.passages`, and `exchange.evidence` to hold the passages found in the messages, too."""
    verifies: ClassVar[bool] = False
    """Whether it uses `ports.verifiers`: the built-in verifier is loaded at start where a route's own policy has such a stage."""
    answers_after: ClassVar[tuple[str, ...]] = ()
    """Stages whose answer hook runs before its own, wherever the policy lists them: the list's order is the request's."""
    embeds: bool = False
    """Whether it uses `ports.embedder` or `ports.ranker`: they are loaded at start where a route's own policy has such a stage. One that
    has an option for it sets it when it is made."""
    answers: ClassVar[tuple[str, ...]] = ()
    """Names of tools that it may offer to the model and that the proxy answers itself (`on_tool_call`)."""

    def __init__(self, options: Any, ports: Ports) -> None:
        self.options = options
        self.ports = ports

    @classmethod
    def blocks_answers(cls, options: Any) -> bool:
        """Whether these options can hold back or change an answer, which ``delivery: tap`` cannot do."""
        return False

    @classmethod
    def needs_hold(cls, options: Any) -> str:
        """Which of these options only ``delivery: hold`` can do, as ``action: retry``; "" where each delivery can."""
        return ""

    @classmethod
    def needs(cls, options: Any) -> tuple[str, ...]:
        """Stages that these options rely on, wherever they stand: a policy without one is refused when it is loaded."""
        return ()

    @classmethod
    def asks(cls, options: Any) -> Mapping[str, str]:
        """Upstreams that these options ask through `ports.chat`, by path inside the options; one that cannot be asked is refused."""
        return {}

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """The request, before the model sees it. A stage that sets `exchange.answer` answers in the model's stead.

        ``Answer((Choice(0, text),))`` is enough: the client gets it as a completion or a stream with what its request asked for. No
        upstream is called, no later stage is asked.
        """
        return None

    async def on_forward(self, exchange: Exchange) -> Verdict | None:
        """The request as it is about to be sent, after every stage's `on_request`; again before each further call of the upstream,
        for an answered tool call or for another answer (`Exchange.retry`).
        """
        return None

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """The result of a call of one of its own tools (`answers`), for the model. It may replace `exchange.tools`.

        `call.parsed` is an object, possibly empty. An exception or a missed deadline is an ``error``; the model is told.
        """
        raise NotImplementedError

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """The whole answer, in `exchange.answer`."""
        return None

    async def on_done(self, exchange: Exchange) -> None:
        """After the answer has left, to learn from it: `exchange.answer` is what the client got. Off the client's path.

        Not called where there was no answer. The exchange's record is already made: nothing is to be changed any more.
        """

    def release(self, exchange: Exchange) -> None:
        """The exchange has ended, whatever came of it: let go of what was kept for it, stop what runs for it."""

    async def stop(self) -> None:
        """The server stops: end what runs in the background."""


def can_answer_tools(exchange: Exchange, name: str = "") -> bool:
    """Whether a stage may offer a tool of its own in this exchange: ask before adding one to `exchange.tools`.

    Not where the client asks for several choices or forbids calls, nor where it has a tool called `name` itself.
    """
    params = exchange.params
    possible = params.get("n") in (None, 1) and "none" not in (params.get("tool_choice"), params.get("function_call"))
    return possible and not (name and any(tool_name(tool) == name for tool in exchange.original.tools))


class SentenceStage(Stage):
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
        """Judge the sentences of an answer that came whole; override it to do so in one batch, or to sum up."""
        if exchange.gated or exchange.answer is None:
            return None
        found: list[Verdict] = []
        for choice in exchange.answer.choices:
            said, offset = [], 0
            sentences = split_sentences(choice.text)
            for i, text in enumerate(sentences):
                sentence = Sentence(text, choice.index, i, offset, final=i == len(sentences) - 1)
                verdict = await self.on_sentence(exchange, sentence)
                said.append(text if verdict is None or verdict.replacement is None else replaced(text, verdict.replacement))
                offset += len(text)
                if verdict is not None:
                    found.append(verdict)
                    if verdict.outcome == "block":
                        return verdict
            if "".join(said) != choice.text:
                exchange.answer = exchange.answer.with_text(choice.index, "".join(said))
        return max(found, key=lambda v: ("pass", "warn", "error", "block").index(v.outcome), default=None)


# ---- ports: what a stage may use of models and store ----


class ModelInfo(Struct, frozen=True):
    """What is known of a model."""

    name: str
    window_tokens: int | None
    """Context window; None when not known."""
    max_output_tokens: int | None = None
    encoding: str | None = None
    """tiktoken encoding; None when the model has no public tokenizer, and counts are estimates."""
    input_usd_per_token: float | None = None
    output_usd_per_token: float | None = None

    @property
    def exact(self) -> bool:
        """Whether text of this model can be counted exactly."""
        return self.encoding is not None


class TokenCounter(Protocol):
    """Counts tokens as a provider would; implemented in `proxy.models.tokens`."""

    def model(self, name: str) -> ModelInfo:
        """What is known of `name`; never raises."""

    def count_text(self, text: str, model: ModelInfo) -> int:
        """Tokens of bare text, with the safety margin where the tokenizer is not public."""

    async def count_request(
        self, messages: Sequence[Message], tools: Sequence[Tool], params: Mapping[str, Any], model: ModelInfo
    ) -> ContextUse:
        """Tokens of a whole prompt, by component. Large cold texts are counted off the event loop."""


class Counters(Protocol):
    """Named counters that a stage may raise; names are dotted, as ``context.usage_warning_count``."""

    def count(self, name: str, value: int = 1) -> None:
        """Raise `name` by `value`."""


class ScratchpadItem(Struct, frozen=True):
    """An archived piece of context."""

    id: str
    """``sp_`` and 32 hexadecimal digits."""
    client: str
    run_id: str
    media_type: str
    size_bytes: int
    created_at: float
    """Seconds since the epoch at which it was first put."""
    used_at: float
    """Seconds since the epoch at which it was last put, or known to be referenced; retention goes by it."""
    content: bytes = b""
    """Empty in lists."""


class Scratchpad(Protocol):
    """Keeps what leaves the prompt, byte for byte; implemented in `proxy.store.scratchpad`."""

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        """Commit `content` and return its id. The same content of the same client and run has the same id.

        Raises `StoreUnavailable` when it could not be kept: the content must then stay in the prompt.
        """

    async def get(self, item_id: str, *, client: str | None = None) -> bytes | None:
        """The bytes, or None. With `client`, only what belongs to it."""

    async def find(self, prefix: str, *, client: str) -> ScratchpadItem | None:
        """`client`'s item whose id begins with `prefix`: ``sp_`` and at least 12 hexadecimal digits.

        None where there is none, or more than one. Raises `StoreUnavailable`.
        """


class Embedder(Protocol):
    """Turns texts into vectors; implemented in `proxy.models.embedding`."""

    @property
    def name(self) -> str:
        """Model and version: vectors of two names cannot be compared."""

    @property
    def dimensions(self) -> int:
        """Length of a vector. Raises `ModelUnavailable` where only the loaded model tells, and it is not loaded: `embed` first."""

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> NDArray[np.float32]:
        """``(len(texts), dimensions)`` float32, each row of unit length. Cached, batched, off the event loop.

        A text too long for the model is cut, an empty one has a vector like any other. `bulk` is work that nobody waits for, as a
        new catalogue: it runs when nothing else does. Raises `ModelUnavailable` when the model cannot be loaded or run.
        """


class ChatModel(Protocol):
    """Asks a configured upstream a question of the proxy's own; implemented in `proxy.upstreams.chat_model`."""

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """The answer's text. Raises `ProxyError`: the upstream is unknown, unreachable, too slow, or answers with an error."""


class ToolRanking(Struct, frozen=True):
    """How much each tool of a request is needed."""

    relevance: tuple[float, ...]
    """For each tool, in the request's order: calibrated probability that it is needed, 0 to 1."""


class ToolRanker(Protocol):
    """Ranks tools for a request; implemented in `proxy.models.tools`."""

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """None while a catalogue too large to embed at once is still being indexed (it goes on in the background).

        `query` is what the user asks now, `context` what else is known of the task (may be empty). What `client` taught by its
        outcomes counts for `client` only.
        """

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        """Remember that for `query` the model called the tools named `called` out of `tools`."""


class ToolRun(Struct, frozen=True):
    """What is remembered of the tools that a run has been shown."""

    names: tuple[str, ...] = ()
    """In the order in which they were chosen."""
    version: int = 0
    """Counts the changes; 0 for a run of which nothing is known."""


class ToolRuns(Protocol):
    """Remembers a run's chosen tools, for every worker; implemented in `proxy.store.tool_runs`."""

    async def get(self, run: str, *, client: str) -> ToolRun:
        """What is known of `client`'s `run`. Raises `StoreUnavailable`."""

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        """Replace the names if the run still has `version`; False when another worker was first. Raises `StoreUnavailable`."""


class ToolOutcome(Struct, frozen=True):
    """That a tool was called, or not, for a query."""

    tool_key: str
    """Hash of what the tool says of itself: another description is another tool."""
    tool_name: str
    """For the operator to read."""
    query_hash: str
    """A later outcome of the same tool and query replaces the earlier one."""
    vector: bytes
    """The query's embedding, in the ranker's own encoding."""
    weight: float = 1.0
    """Above 0: it served; below 0: it did not."""
    created_at: float = 0.0
    """Seconds since the epoch; set by the store."""


class ToolOutcomes(Protocol):
    """Keeps what tool calls taught, apart for each client and bounded; implemented in `proxy.store.tool_outcomes`."""

    async def add(self, outcomes: Sequence[ToolOutcome], *, client: str, embedder: str) -> None:
        """Keep `outcomes`; the oldest of a tool, or of the client, make room. Raises `StoreUnavailable`."""

    async def load(self, *, client: str, embedder: str, tool_keys: Sequence[str] | None = None) -> list[ToolOutcome]:
        """What was learned with vectors of `embedder`, newest first; of these tools only, if given. Raises `StoreUnavailable`."""

    async def version(self, client: str) -> int:
        """Changes whenever the client's outcomes do, by deletion too; 0 where there are none. Raises `StoreUnavailable`."""


class Compaction(Struct, frozen=True):
    """What is sent in place of a conversation's first messages, once decided and then the same on every turn and in every worker."""

    covers: str
    """Hash of the messages that it stands for, as the client sends them (`proxy.conversation.prefix_hashes`)."""
    length: int
    """How many messages that is."""
    pieces: tuple[int | dict[str, Any], ...]
    """In order: the position of a message that stays as it is, or a message that was made."""
    made_at: float = 0.0
    """Seconds since the epoch; set by the store."""


class Compactions(Protocol):
    """Remembers compactions; implemented in `proxy.store.compactions`."""

    async def find(self, covers: Sequence[str], *, client: str) -> Compaction | None:
        """The client's longest compaction whose `covers` is one of these. Raises `StoreUnavailable`."""

    async def put(self, compaction: Compaction, *, client: str, run_id: str) -> Compaction:
        """Keep it, and return what is kept: another worker's, if that was first. Raises `StoreUnavailable`."""


class FirstSeen(Protocol):
    """Remembers when the messages of a run were first seen; implemented in `proxy.store.first_seen`."""

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        """For each hash when it was first seen, in seconds since the epoch; `now` for new ones, kept. Raises `StoreUnavailable`."""


class Verifier(Protocol):
    """Judges claims by evidence; implemented in `proxy.models.grounding` and `proxy.verification`."""

    @property
    def name(self) -> str:
        """Model and version, for the record."""

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        """One answer for each pair, in order; None where it cannot judge (a language that it does not know): the claim is an ``error``.

        Batched, off the event loop, cached. Raises `ModelUnavailable` when it cannot run at all, or has more waiting than it can do.
        """


class Verifiers(Protocol):
    """Where a stage gets a verifier that runs in this process; made once, loaded at its first use."""

    def get(self, model: str = "") -> Verifier:
        """The built-in one, or a sentence-transformers cross-encoder or token classifier by its name or folder."""


class Ports(Struct, frozen=True):
    """What a stage may ask for; filled by `proxy.app`."""

    tokens: TokenCounter
    counters: Counters
    scratchpad: Scratchpad
    embedder: Embedder
    chat: ChatModel
    ranker: ToolRanker
    tool_runs: ToolRuns
    compactions: Compactions
    first_seen: FirstSeen
    verifiers: Verifiers
