"""For the features about a prompt's size: messages of an exact number of tokens, and a policy's real stages that they run through."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from proxy.context.archive import READ_ARCHIVE, references_in
from proxy.errors import ProxyError
from proxy.exchange import Exchange, Prompt, ToolCall, Verdict
from proxy.models.tokens.counter import TiktokenCounter
from proxy.observe.metrics import Metrics
from proxy.pipeline import Pipeline
from proxy.ports import TokenCounter
from proxy.ports.stage import Stage, StageOptions
from proxy.testing import make_exchange, make_ports
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialect
from proxy.wire.gemini.dialect import GeminiDialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.requests import output_requirements_of
from proxy.wire.responses.dialect import ResponsesDialect
from tests.apis import Api

MODEL = "gpt-4o"
PROMPT_TOKENS = 3
"""Of the whole prompt, for the start of the reply."""
MESSAGE_TOKENS = 4
"""Around a message's content: 3, and its role."""
_PLACES = ("Lisbon", "Vienna", "Osaka", "Tromsø", "Nairobi", "Quito", "Halifax")
_COUNTER = TiktokenCounter({})

Message = dict[str, Any]
DIALECTS: Mapping[str, Dialect] = {
    "chat": ChatDialect(),
    "responses": ResponsesDialect(),
    "messages": MessagesDialect(),
    "gemini": GeminiDialect(),
}


def text(tokens: int, number: int = 0) -> str:
    """Sentences about trip `number`, `tokens` tokens long."""
    info = _COUNTER.model(MODEL)
    said = ""
    for i in itertools.count():
        place = _PLACES[(number + i) % len(_PLACES)]
        longer = f"{said} The party of trip {number} spent day {i} in {place} and walked along the river."
        if _COUNTER.count_text(longer.strip(), info) > tokens:
            break
        said = longer
    said = said.strip() or "so"
    said += " so" * (tokens - _COUNTER.count_text(said, info))
    assert tokens == _COUNTER.count_text(said, info)
    return said


def message(role: str, tokens: int, number: int = 0) -> Message:
    """A message that takes `tokens` tokens of a prompt."""
    return {"role": role, "content": text(tokens - MESSAGE_TOKENS, number)}


def dialogue(count: int, tokens: int, first: str = "user") -> list[Message]:
    """`count` messages of a user and an assistant in turn, `tokens` tokens in all."""
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    each = tokens // count
    sizes = [each] * (count - 1) + [tokens - each * (count - 1)]
    return [message(roles[i % 2], size, i) for i, size in enumerate(sizes)]


def tool_step(id_: str, result: str) -> list[Message]:
    """A call of ``list_invoices`` and its result."""
    call = {"id": id_, "type": "function", "function": {"name": "list_invoices", "arguments": "{}"}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": id_, "content": result}]


class Policy:
    """Stages, what they keep and count, and the last request that went through them."""

    def __init__(self, tokens: TokenCounter = _COUNTER) -> None:
        self.tokens = tokens
        self.window_tokens = 8192
        self.stages: dict[str, tuple[type[Stage], dict[str, Any]]] = {}
        """By name, in order: the class and its options."""
        self.params: dict[str, Any] = {}
        self.messages: list[Message] = []
        self.ages_s: Mapping[int, float] = {}
        """Of the messages that have a timestamp, by position."""
        self.metrics = Metrics()
        self.ports = make_ports(tokens=tokens, counters=self.metrics)
        self.api: Api | None = None
        """In whose requests the conversation comes and leaves; None where it never was on the wire."""
        self.exchange: Exchange
        self.refused: ProxyError | None = None
        self._pipeline: Pipeline

    def counts(self, tokens: TokenCounter) -> None:
        """Count with `tokens` from now on."""
        self.tokens = tokens
        self.ports = make_ports(tokens=tokens, counters=self.metrics)

    def use(self, stage: type[Stage], **options: Any) -> None:
        """Put `stage` last, or change its options."""
        _, given = self.stages.get(stage.name, (stage, {}))
        self.stages[stage.name] = (stage, {**given, **options})

    def send(self) -> None:
        """Run the request through new stages, as another worker would."""
        self.stages["budget"][1]["window"] = self.window_tokens
        self._pipeline = Pipeline([cls(_options(cls, given), self.ports) for cls, given in self.stages.values()])
        self.exchange = exchange = self._came()
        hints = {i: {"timestamp": exchange.received_at - age} for i, age in self.ages_s.items()}
        exchange.original = replace(exchange.original, message_hints=hints)
        self.refused = None
        try:
            asyncio.run(self._pipeline.request(exchange))
        except ProxyError as error:
            self.refused = error
        assert [] == [found for found in exchange.verdicts if found.outcome == "error"]

    def _came(self) -> Exchange:
        if self.api is None:
            return make_exchange(self.messages, model=MODEL, **self.params)
        body = self.api.request({"model": MODEL, "messages": self.messages, **self.params})
        if self.api.name == "gemini":
            body["model"] = MODEL
        if "max_tokens" not in self.params:
            body.pop("max_tokens", None)  # the scenarios reckon with the policy's reserve
        request = DIALECTS[self.api.name].parse_request(json.dumps(body).encode())
        assert not self.ages_s or len(self.messages) == len(request.messages)  # their positions are those of the messages
        return replace(make_exchange(), original=request, prompt=Prompt(request.messages, request.tools, request.params), model=MODEL)

    # ---- what came of it ----

    @property
    def sent(self) -> list[Mapping[str, Any]]:
        """The forwarded messages, as the provider reads them."""
        if self.api is None:
            return list(self.exchange.messages)
        return list(self.api.chat_request(json.loads(DIALECTS[self.api.name].render_request(self.exchange)))["messages"])

    @property
    def before_tokens(self) -> int:
        """Of the client's prompt."""
        assert self.exchange.facts.context_before is not None
        return self.exchange.facts.context_before.used_tokens

    @property
    def sent_tokens(self) -> int:
        """Of the forwarded prompt, counted once more, with the tools."""
        return self.size(self.exchange.messages, self.exchange.tools)

    def size(self, messages: Sequence[Any], tools: Sequence[Any] = ()) -> int:
        """Tokens of a prompt."""
        return asyncio.run(
            self.tokens.count_request(messages, tools, output_requirements_of(self.params), self.tokens.model(MODEL))
        ).used_tokens

    def verdict(self, stage: str) -> Verdict:
        """The stage's only verdict."""
        (found,) = [verdict for verdict in self.exchange.verdicts if verdict.stage == stage]
        return found

    def silent(self, stage: str) -> bool:
        """Whether the stage had nothing to say."""
        return not any(verdict.stage == stage for verdict in self.exchange.verdicts)

    def counted(self, name: str) -> float:
        """What a counter of the stages stands at."""
        counters: Any = self.metrics.as_json()["counters"]
        return float(counters.get(name, 0.0))

    def read_archive(self, id_: str, **arguments: Any) -> str:
        """What the model is answered on a call of the archive's tool, in a turn of its own: each has all the room that is left."""
        assert READ_ARCHIVE in self._pipeline.own_calls.offered(self.exchange)
        call, room = ToolCall("call_read", READ_ARCHIVE, json.dumps({"id": id_, **arguments})), self.exchange.facts.context
        answer = asyncio.run(self._pipeline.own_calls.answer(self.exchange, [call]))[0]
        self.exchange.facts.context = room
        return answer

    def read_whole(self, id_: str) -> str:
        """All pages, joined."""
        found: list[str] = []
        while True:
            head, _, page = self.read_archive(id_, page=len(found) + 1).partition("\n")
            found.append(page)
            if head == f"[page {len(found)} of {len(found)}]":
                return "".join(found)
            assert head.startswith(f"[page {len(found)} of ")

    def only_reference(self) -> Any:
        """The one reference to the archive that the forwarded prompt has."""
        (found,) = references_in(self.exchange.messages)
        return found


def _options(stage: type[Stage], given: Mapping[str, Any]) -> StageOptions:
    return msgspec.convert(given, stage.Options)
