"""Counts the tokens of a prompt as its provider would; the `TokenCounter` of `proxy.ports.stage`.

Comes first and last in a policy's flow (the budget stage asks before and after the others). A chat prompt follows the recipe of
OpenAI's cookbook ("How to count tokens with tiktoken"): 3 tokens around each message, its role, its content, 1 more for a name, and
3 for the start of the reply. What the cookbook leaves out (tools, calls and their results, the later reasoning models) follows
recorded usage figures of real answers (``tests/models/data/usage.jsonl``). A shape that no recorded figure covers is counted by the
nearest rule and makes the whole count inexact; so does any model without a public tokenizer.

Every text is counted once and remembered by its hash (`proxy.models.tokens.encodings`): a conversation's next turn costs what is new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import UNSET

from proxy.config.settings import ModelSettings
from proxy.exchange import ContextUse, Message, Tool
from proxy.exchange.answers import OutputRequirements
from proxy.models.tokens import media
from proxy.models.tokens.encodings import ESTIMATE, ESTIMATE_BASE, Catalogue, Encodings, TextCount
from proxy.models.tokens.schemas import as_json, render_answer_schema, render_tools
from proxy.offloop import LARGE, each, run_in_thread_if_large
from proxy.ports import ModelInfo

PER_MESSAGE = 3
PER_NAME = 1
REPLY = 3
REPLY_REASONING = 2
"""o1 and later, gpt-5 and later: recorded figures are one lower than the recipe, whatever the number of messages."""
TOOL_CALL = 3
"""Around an assistant message's call, besides its name and its arguments as compact JSON."""
TOOL_RESULT = 2
"""Around a tool message's result, besides the name of the tool that was called."""
FUNCTION_RESULT = -2
"""The same for the older ``function`` role."""
TOOLS = 9
TOOLS_WITH_SYSTEM = 5
"""Around the tools: a message of their own, or appended to the system message after a line break."""
PARALLEL_CALLS = "multi_tool_use.parallel"
"""Several calls at once are one call of this, in OpenAI's rendering."""
INLINE_CHARACTERS = 20_000
"""Uncounted tools up to this length are counted on the event loop (a few milliseconds), more in a thread."""
INLINE_ITEMS = 500
"""Messages and tools: one costs 5 to 20 µs, however little it says."""

MAX_PARTS = 2000
"""Of a message's content, each counted as itself."""

_SHORT_CHARS = 40
_SYSTEM = ("system", "developer")
_REASONING = re.compile(r"(ft:)?(o\d|gpt-5)")
_UNCOVERED_MODELS = re.compile(r"audio|search|realtime|deep-research|gpt-oss|instruct|0301|codex|gpt-5-chat|embedding")
"""Members of OpenAI's families that add to the prompt, or frame it in a way no recorded figure covers."""
_COUNTED_FIELDS = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "groundwire"))


class TiktokenCounter:
    """The `TokenCounter` of `proxy.ports.stage`. `models` is config.yaml's ``models:``. Safe to share between threads."""

    def __init__(self, models: Mapping[str, ModelSettings], *, encodings: Encodings | None = None) -> None:
        self._catalogue = Catalogue(models)
        self._encodings = encodings or Encodings()

    def load(self, *encodings: str) -> bool:
        """Read the list of models and these vocabularies (o200k_base unless told), 0.3 s in all: call it off the event loop.

        Returns whether all of them could be had; what could not is counted by estimate.
        """
        self._catalogue.bundled()
        found = [self._encodings.load(encoding) for encoding in encodings or (ESTIMATE_BASE,)]
        return all(found)

    def load_list(self) -> None:
        """Read the list of models alone, 30 ms: call it off the event loop."""
        self._catalogue.bundled()

    def reading_since(self, moment: float) -> bool:
        """Whether a vocabulary was being read at some time after `moment`, in `time.perf_counter`'s seconds."""
        return self._encodings.reading_since(moment)

    def model(self, name: str) -> ModelInfo:
        """What is known of `name`; never raises."""
        return self._catalogue.find(name)

    def count_text(self, text: str, model: ModelInfo) -> int:
        """Tokens of bare text, with the safety margin where the tokenizer is not public."""
        return self._encodings.count(text, model.encoding or ESTIMATE).tokens

    async def count_request(
        self, messages: Sequence[Message], tools: Sequence[Tool], wants: OutputRequirements, model: ModelInfo
    ) -> ContextUse:
        """Tokens of a whole prompt, by component. Large cold texts are counted off the event loop."""
        parts = sum(len(content) for message in messages[:INLINE_ITEMS] if isinstance(content := message.get("content"), list))
        large = len(messages) + len(tools) + parts > INLINE_ITEMS
        prompt = await run_in_thread_if_large(LARGE if large else 0, _Prompt, self._encodings, messages, tools, wants, model)
        return await run_in_thread_if_large(LARGE if large or prompt.is_large() else 0, prompt.count)


class _Prompt:
    """One request being counted."""

    def __init__(
        self, encodings: Encodings, messages: Sequence[Message], tools: Sequence[Tool], wants: OutputRequirements, model: ModelInfo
    ) -> None:
        self.encodings = encodings
        self.messages = messages
        self.wants = wants
        self.model = model
        self.encoding = model.encoding or ESTIMATE
        # what is deferred the client leaves to the provider's tool search to put into the prompt
        self.tools = tools = [tool for tool in tools if not (isinstance(tool, Mapping) and tool.get("defer_loading") is True)]
        self.tools_key = _key(tools) if tools else b""
        self.schema = render_answer_schema(wants.shown_schema)
        base = model.name.rpartition("/")[2]
        self.reasoning = _REASONING.match(base) is not None
        self.exact = model.exact and not _UNCOVERED_MODELS.search(base)
        self.called: dict[str, str] = {}
        self.short: dict[str, TextCount] = {}
        self.guessed_tokens = 0

    def is_large(self) -> bool:
        """Whether it would hold up the event loop in one go; texts are counted one by one, and go on in a thread after a slice of it."""
        kind, key = self._tools_kind(), self.tools_key
        return len(key) > INLINE_CHARACTERS and not self.encodings.knows(kind, hash(key), len(key))

    def count(self) -> ContextUse:
        """All components and their sum. May begin twice (`proxy.offloop`)."""
        self.guessed_tokens = 0
        used = dict.fromkeys(("system_instructions", "conversation_history", "tool_descriptions", "current_query"), 0)
        last = max((i for i, message in enumerate(self.messages) if message.get("role") == "user"), default=-1)
        for i, message in enumerate(each(self.messages)):
            system = message.get("role") in _SYSTEM
            component = "system_instructions" if system else "current_query" if i == last else "conversation_history"
            used[component] += self.message(message)
        used["current_query"] += REPLY_REASONING if self.reasoning else REPLY
        used["tool_descriptions"] = self.tool_descriptions()
        used["system_instructions"] += self.answer_schema()
        exact = self.exact and self.encodings.load(self.encoding)
        return ContextUse(sum(used.values()), self.model.window_tokens, exact, used, self.guessed_tokens or UNSET)

    def message(self, message: Message) -> int:
        """Tokens of one message with what surrounds it."""
        role = message.get("role")
        content = message.get("content")
        tokens = PER_MESSAGE + self.text(role if isinstance(role, str) else str(role)) + self.content(content)
        if message.get("tool_calls"):
            self.unless_covered(not content and self.encoding == "o200k_base" and not self.reasoning)
            tokens += self.tool_calls(message["tool_calls"])
        if message.get("function_call"):
            self.unless_covered(not content and self.encoding == "cl100k_base")
            tokens += self.call(message["function_call"], compact=False)
        if message.get("refusal"):
            self.unless_covered(False)
            tokens += self.anything(message["refusal"])
        if not _COUNTED_FIELDS.issuperset(message):
            self.unless_covered(all(message[key] is None for key in message if key not in _COUNTED_FIELDS))
        return tokens + self.name(message, role)

    def name(self, message: Message, role: Any) -> int:
        """A message's own name, or the name of the tool whose result it is."""
        if role == "tool":
            called = self.called.get(str(message.get("tool_call_id")))
            self.unless_covered(called is not None and self.encoding == "o200k_base" and not self.reasoning)
            return TOOL_RESULT + self.text(called or "unknown_tool")
        name = message.get("name")
        if not name:
            return 0
        framing = PER_NAME + (FUNCTION_RESULT if role == "function" else 0)
        self.unless_covered(role != "function" or self.encoding == "cl100k_base")
        return framing + self.anything(name)

    def content(self, content: Any) -> int:
        """Tokens of a message's content: text, parts or nothing."""
        if content is None:
            return 0
        if not isinstance(content, (list, tuple)):
            return self.anything(content)
        if sum(1 for part in content if isinstance(part, Mapping) and part.get("type") == "text") > 1:
            self.unless_covered(False)
        if len(content) > MAX_PARTS:
            return self.many_parts(content)
        return sum(self.part(part) for part in each(content))

    def many_parts(self, content: Sequence[Any]) -> int:
        """Tokens of more parts than anybody has a reason to send: all of their text as one, and the JSON of the others, not exact."""
        self.unless_covered(False)
        said, others = list[str](), list[Any]()
        for part in each(content):
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str):
                said.append(text)
            else:
                others.append(part)
        return self.text("".join(said)) + (self.text(as_json(others)) if others else 0)

    def part(self, part: Any) -> int:
        """Tokens of one content part."""
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            return self.text(part["text"])
        if kind == "image_url":
            return self.add(media.image(part, self.model.name, exact=self.exact))
        self.unless_covered(False)
        if kind == "refusal":
            return self.anything(part.get("refusal"))
        if kind in media.KINDS or (kind is not None and media.holds_data(part)):
            return self.file(kind, part)
        return self.anything(part)

    def file(self, kind: str, part: Mapping[str, Any]) -> int:
        """Tokens of a part that is no text and no image."""
        name, address = self.model.name, media.address_of(kind, part)
        key = f"{kind}:{name}", hash(address), len(address)
        tokens = self.encodings.remember(*key, lambda: TextCount(media.tokens_of(kind, part, name), False)).tokens
        self.guessed_tokens += tokens
        return tokens

    def tool_calls(self, calls: Any) -> int:
        """Tokens of an assistant message's calls; several at once are wrapped in one."""
        if not isinstance(calls, (list, tuple)):
            return self.anything(calls)
        functions = []
        for call in calls:
            function = call.get("function") if isinstance(call, Mapping) else None
            if not isinstance(function, Mapping):
                self.unless_covered(False)
                function = {"name": "", "arguments": as_json(call)}
            elif call.get("id"):
                self.called[str(call["id"])] = str(function.get("name"))
            functions.append(function)
        if len(functions) == 1:
            return self.call(functions[0], compact=True)
        self.unless_covered(False)
        wrapping = self.text('{"tool_uses":[]}') + len(functions) * self.text('{"recipient_name":"functions.","parameters":},')
        return TOOL_CALL + self.text(PARALLEL_CALLS) + wrapping + sum(self.call(f, compact=True) - TOOL_CALL for f in functions)

    def call(self, function: Any, *, compact: bool) -> int:
        """Tokens of one call; `compact` for the form in which current models are shown the arguments."""
        if not isinstance(function, Mapping):
            return self.anything(function)
        arguments = function.get("arguments")
        arguments = arguments if isinstance(arguments, str) else as_json(arguments)
        name = self.anything(function.get("name") or "")
        if not compact:
            return TOOL_CALL + name + self.text(arguments)
        key = (f"arguments:{self.encoding}", hash(arguments), len(arguments))
        return TOOL_CALL + name + self.add(self.encodings.remember(*key, lambda: self.encodings.count(_compact(arguments), self.encoding)))

    def tool_descriptions(self) -> int:
        """Tokens of all tools, with what surrounds them."""
        if not self.tools:
            return 0
        digest = (self._tools_kind(), hash(self.tools_key), len(self.tools_key))
        tokens = self.add(self.encodings.remember(*digest, self._count_tools))
        self.unless_covered(not self.reasoning)
        first = next((m for m in self.messages if m.get("role") in _SYSTEM), None)
        tokens += TOOLS if first is None else TOOLS_WITH_SYSTEM + self._line_break(first)
        if self.wants.calls == "none":
            self.unless_covered(False)
            return tokens + 1
        chosen = sorted(self.wants.chosen_tools)
        return tokens + sum(self.anything({"type": "function", "function": {"name": name}}) for name in chosen)

    def answer_schema(self) -> int:
        """Tokens of the schema that the answer should have: an estimate."""
        if self.schema:
            self.unless_covered(False)
        return self.text(self.schema)

    def _count_tools(self) -> TextCount:
        rendering = render_tools(self.tools, self.encoding)
        counted = self.encodings.count(rendering.text, self.encoding)
        return TextCount(max(1, counted.tokens + rendering.correction_tokens), rendering.exact and counted.exact)

    def _tools_kind(self) -> str:
        return f"tools:{self.encoding}"

    def _line_break(self, system: Message) -> int:
        """Tokens of the line break after the system message: it may merge with the message's last characters."""
        content = system.get("content")
        if not isinstance(content, str):
            self.unless_covered(False)
            return 1
        tail = content[-100:]
        return max(0, self.text(tail + "\n") - self.text(tail))

    def text(self, text: str) -> int:
        """Tokens of text that the prompt holds as it is."""
        if len(text) > _SHORT_CHARS:
            return self.add(self.encodings.count(text, self.encoding))
        if (count := self.short.get(text)) is None:  # a role, a tool's name: it comes with every other message
            count = self.short[text] = self.encodings.count(text, self.encoding)
        return self.add(count)

    def anything(self, value: Any) -> int:
        """Tokens of a value that should be text; by its JSON, and not exact, if it is something else."""
        if isinstance(value, str):
            return self.text(value)
        self.unless_covered(False)
        return self.text(as_json(value))

    def add(self, count: TextCount) -> int:
        """The tokens of `count`, noting when they are not certain."""
        self.exact = self.exact and count.exact
        return count.tokens

    def unless_covered(self, covered: bool) -> None:
        """Note that something was counted by a rule that no recorded figure covers."""
        self.exact = self.exact and covered


def _compact(arguments: str) -> str:
    try:
        return orjson.dumps(orjson.loads(arguments)).decode()
    except orjson.JSONDecodeError:
        return arguments


def _key(tools: Sequence[Tool]) -> bytes:
    """A key for the content of `tools`."""
    try:
        return orjson.dumps(tools)
    except TypeError:
        return as_json(tools).encode("utf-8", "surrogatepass")
