"""What a stage may use of models and store: small protocols, and the plain values that go through them.

Stages, models and the store do not import each other: `proxy.app` fills `Ports` with what it has made, and a stage gets it when it is
made itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from proxy.exchange import ContextUse, Message, Tool, Usage
from proxy.exchange.answers import OutputRequirements
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import failures as failure_records
from proxy.ports.decisions import DecisionModel as DecisionModel
from proxy.ports.facts import Fact as Fact
from proxy.ports.facts import FactHit as FactHit
from proxy.ports.failures import FailureRecord as FailureRecord
from proxy.ports.failures import Failures as Failures
from proxy.ports.judge import Builtin, Judge
from proxy.ports.review import Clashes as Clashes
from proxy.ports.review import ClashRecord as ClashRecord
from proxy.ports.review import Quarantine as Quarantine
from proxy.ports.review import QuarantineItem as QuarantineItem
from proxy.ports.tool_servers import NoServers, ToolServers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FailureEvent = failure_records.FailureEvent


HOUR_PRICES = 2
"""What Anthropic asks for input that it keeps in its cache for an hour, in prices of other input: for all its models, on other clouds, too
(https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching#pricing). No other provider tells of such input.
"""


class Rate(Struct, array_like=True, frozen=True, gc=False):
    """Prices of a model in USD a token, each None where the list names none."""

    tier: str
    """Of service; "" for the usual one."""
    above_tokens: int
    """Of a longer prompt all tokens have these prices."""
    input: float | None
    output: float | None
    cached: float | None
    """Of input that the provider read from its cache; as `input` where there is none."""
    written: float | None
    """Of input that it wrote to its cache."""


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
    cached_usd_per_token: float | None = None
    """For input that the provider read from its cache; None where the list names no price of its own for it."""
    written_usd_per_token: float | None = None
    """For input that it wrote to its cache; None where the list names no price of its own for it."""
    answers_beside_window: bool = False
    """Whether the window is the prompt's alone: the provider has room of its own for the answer."""
    rates: tuple[Rate, ...] = ()
    """Other prices, of long prompts and other tiers of service; by tier, then by length."""

    @property
    def exact(self) -> bool:
        """Whether text of this model can be counted exactly."""
        return self.encoding is not None

    @property
    def rewrite_ratio(self) -> float:
        """What a token costs more where the cache has to be written anew than where it is read, in prices of reading; 0 where no price of
        reading is known: nothing is lost then. What is written costs no less than other input: a list's 0 is no price, and Gemini's is
        that of keeping it."""
        read, write = self.cached_usd_per_token, max(self.input_usd_per_token or 0.0, self.written_usd_per_token or 0.0)
        return max(write / read - 1, 0.0) if read else 0.0

    def cost_usd(self, usage: Usage) -> float | None:
        """By the list of prices; None where a price is not known. A tier of which the list has nothing costs what the usual one does."""
        rate = self._rate(usage)
        if rate.input is None or rate.output is None:
            return None
        cached_usd = rate.input if rate.cached is None else rate.cached
        written_usd = max(rate.input, rate.written or 0.0)  # as `rewrite_ratio` has it
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        written = max(0, min(usage.written_tokens, usage.prompt_tokens - cached))
        prompt_usd = (usage.prompt_tokens - cached - written) * rate.input + cached * cached_usd + written * written_usd
        dearer_usd = max(0.0, HOUR_PRICES * rate.input - written_usd)
        prompt_usd += max(0, min(usage.written_1h_tokens, written)) * dearer_usd
        return prompt_usd + usage.completion_tokens * rate.output

    def _rate(self, usage: Usage) -> Rate:
        """What a call of this length costs, on average, in its tier."""
        found = Rate("", 0, self.input_usd_per_token, self.output_usd_per_token, self.cached_usd_per_token, self.written_usd_per_token)
        for rate in self.rates:
            if rate.tier in ("", usage.tier) and rate.above_tokens * usage.calls < usage.prompt_tokens:
                found = rate
        return found


class TokenCounter(Protocol):
    """Counts tokens as a provider would; implemented in `proxy.models.tokens.counter`."""

    def model(self, name: str) -> ModelInfo:
        """What is known of `name`; never raises."""

    def count_text(self, text: str, model: ModelInfo) -> int:
        """Tokens of bare text, with the safety margin where the tokenizer is not public."""

    async def count_request(
        self, messages: Sequence[Message], tools: Sequence[Tool], wants: OutputRequirements, model: ModelInfo
    ) -> ContextUse:
        """Tokens of a whole prompt, by component. Large cold texts are counted off the event loop."""


class Counters(Protocol):
    """Named counters that a stage may raise; names are dotted, as ``context.usage_warning_count``."""

    def count(self, name: str, value: int = 1) -> None:
        """Raise `name` by `value`."""


class UpstreamFigures(Protocol):
    """Where the calls of one upstream are counted; implemented in `proxy.observe.metrics`."""

    def answered(self, status: int, seconds: float) -> None:
        """Headers with `status` came `seconds` after the call."""

    def ended(self, seconds: float) -> None:
        """An answer's last byte came `seconds` after the call."""

    def failed(self, code: str) -> None:
        """A call ended without an answer, with the `ProxyError` of this code."""

    def broke(self, code: str) -> None:
        """An answer had begun and did not end."""

    def retried(self) -> None:
        """A call is tried again."""

    def fell_back(self) -> None:
        """A call goes on to the next upstream."""


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
    """Keeps what leaves the prompt, byte for byte; implemented in `proxy.store.memory`."""

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
    """Turns texts into vectors; implemented in `proxy.models.embedding.embedder`."""

    @property
    def name(self) -> str:
        """Model and version: vectors of two names cannot be compared."""

    @property
    def dimensions(self) -> int:
        """Length of a vector. Raises `ModelUnavailable` where only the loaded model tells, and it is not loaded: `embed` first."""

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        """``(len(texts), dimensions)`` float32, each row of unit length. Cached, batched, off the event loop.

        A text too long for the model is cut, an empty one has a vector like any other. `bulk` is work that nobody waits for, as a
        new catalogue: it runs when nothing else does. Texts that are embedded `together` take one pass of the model, several times
        faster for words and short sentences, and are cached together: the same list has the same vectors to the last bit, the same
        text in another list may differ in the last digits. Raises `ModelUnavailable` when the model cannot be
        loaded or run.
        """

    async def unknown(self, texts: Sequence[str]) -> int:
        """How many of them the model would have to read: the memory has no vectors of them."""

    async def rough(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """``(len(texts), any)`` of unit length: far cheaper, and good enough to find candidates by. None where a model has none."""


class Completion(Struct, frozen=True):
    """A chat model's answer to a question of the proxy's own, and what it cost."""

    text: str
    first_token: Mapping[str, float] = {}
    """Log probabilities of what its first token might have been, where they were asked for and given."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """By the list of prices; None where none is known."""


class ChatModel(Protocol):
    """Asks a configured upstream a question of the proxy's own; implemented in `proxy.upstreams.asking`."""

    async def answer(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> Completion:
        """The answer with what it cost; its text may be empty. Raises `ProxyError`: the upstream is unknown, unreachable, too slow, or
        answers with an error.
        """

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """The answer's text alone, which is not empty. Raises `ProxyError`."""


class ToolRanking(Struct, frozen=True):
    """How much each tool of a request is needed."""

    relevance: tuple[float, ...]
    """For each tool, in the request's order: calibrated probability that it is needed, 0 to 1."""
    shortlist: bool = False
    """Whether only the likeliest tools were compared, the catalogue being new; the others have 0."""


class ToolRanker(Protocol):
    """Ranks tools for a request; implemented in `proxy.models.tools.ranker`."""

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
    """Remembers a run's chosen tools, for every worker; implemented in `proxy.store.memory`."""

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


class SharedVectors(Protocol):
    """Vectors of texts that come again at every node, as of tools; implemented in `proxy.store.vectors`. Never raises."""

    async def get(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Those that there are: float32, little endian."""

    def put(self, rows: Mapping[str, bytes]) -> None:
        """Keep them, soon; nobody needs to wait for it."""

    async def stop(self) -> None:
        """End what is under way."""


class Compaction(Struct, frozen=True):
    """What is sent in place of a conversation's first messages, once decided and then the same on every turn and in every worker."""

    covers: str
    """Hash of the messages that it stands for, as the client sends them (`proxy.context.lineage.prefix_hashes`)."""
    length: int
    """How many messages that is."""
    pieces: tuple[int | dict[str, Any], ...]
    """In order: the position of a message that stays as it is, or a message that was made."""
    made_at: float = 0.0
    """Seconds since the epoch; set by the store."""


class Compactions(Protocol):
    """Remembers compactions; implemented in `proxy.store.memory`."""

    async def find(self, covers: Sequence[str], *, client: str) -> Compaction | None:
        """The client's longest compaction whose `covers` is one of these. Raises `StoreUnavailable`."""

    async def put(self, compaction: Compaction, *, client: str, run_id: str) -> Compaction:
        """Keep it, and return what is kept: another worker's, if that was first. Raises `StoreUnavailable`."""


class FirstSeen(Protocol):
    """Remembers when the messages of a run were first seen; implemented in `proxy.store.memory`."""

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        """For each hash when it was first seen, in seconds since the epoch; `now` for new ones, kept. Raises `StoreUnavailable`."""


class Verifier(Protocol):
    """Judges claims by evidence; implemented in `proxy.models.verifier.verifier` and `proxy.grounding.judging`."""

    @property
    def name(self) -> str:
        """Model and version, for the record."""

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        """One answer for each pair, in order; None where it cannot judge: the claim is an ``error``, or ``unsure`` in a language that it
        does not know (`knows`).

        Batched, off the event loop, cached. Raises `ModelUnavailable` when it cannot run at all, or has more waiting than it can do.
        """


@runtime_checkable
class KnowsLanguages(Protocol):
    """A verifier that judges claims in some languages alone."""

    def knows(self, language: str) -> bool:
        """Whether it judges claims in `language` (ISO 639-1); asked behind `Verifier.verify`."""


def knows(verifier: object, language: str) -> bool:
    """Whether `verifier` judges claims in `language`: one that says nothing of it judges all."""
    return not isinstance(verifier, KnowsLanguages) or verifier.knows(language)


class Verifiers(Protocol):
    """Where a stage gets a verifier that runs in this process; made once, loaded at its first use."""

    def get(self, model: str = "") -> Verifier:
        """The built-in one, or the one in a folder."""


class KnowledgeBase(Protocol):
    """Facts that claims are checked against; implemented in `proxy.models.knowledge.bases` and, for many nodes, `proxy.store.knowledge`."""

    @property
    def version(self) -> str:
        """Hash of all facts and of the embedder's name. Raises `ModelUnavailable` while it is not loaded: `current` first."""

    @property
    def size(self) -> int:
        """How many facts it has. Raises `ModelUnavailable` while it is not loaded."""

    async def current(self) -> KnowledgeBase:
        """It as it is now, loaded, and the same for as long as it is held: one verdict rests on one version. Raises `ModelUnavailable`."""

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """For each text the facts that say most to it, best first, at most `k`. Raises `ModelUnavailable`."""

    async def exact(self, texts: Sequence[str]) -> list[Fact | None]:
        """For each text the fact that says it word by word (`proxy.ports.facts.normalised`), one that holds now before one that does not.
        Raises `ModelUnavailable`."""


class KnowledgeBases(Protocol):
    """Where a stage gets a knowledge base; made once for each folder, loaded at its first use."""

    def get(self, folder: str) -> KnowledgeBase:
        """The one in `folder`; a relative one starts at config.yaml. Raises `ConfigError` where there is none."""


class Spending(Protocol):
    """What is spent from a budget, by all processes that share a store; implemented in `proxy.store.memory`."""

    async def add(self, name: str, day: int, usd: float) -> float:
        """What was spent of the budget on this day (since the epoch, UTC), `usd` more than before included. Raises `StoreUnavailable`."""


class Ports(Struct, frozen=True):
    """What a stage may ask for; filled by `proxy.app`."""

    tokens: TokenCounter
    counters: Counters
    scratchpad: Scratchpad
    embedder: Embedder
    chat: ChatModel
    decisions: DecisionModel
    ranker: ToolRanker
    tool_runs: ToolRuns
    compactions: Compactions
    first_seen: FirstSeen
    verifiers: Verifiers
    quarantine: Quarantine
    clashes: Clashes
    failures: Failures
    knowledge: KnowledgeBases
    spending: Spending | None = None
    """None counts in this process alone."""
    tool_servers: ToolServers = NoServers()
    judge: Judge = Builtin()
    """Whom the policy asks what a text means; the models of this process alone, where it names nobody."""
