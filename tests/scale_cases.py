"""Requests and answers of size n, an upstream in memory and models that cost nothing: what `tests/test_scale.py` doubles."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

import proxy
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.exchange import Tool
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import ToolRanking
from proxy.testing import ScriptedVerifiers, chunk, completion, streamed
from tests.memory_upstream import MemoryUpstream

POLICIES = ("rag", "strict", "agent")
FOLDER = Path(proxy.__file__).parent.parent / "policies"
JSON, EVENTS = "application/json", "text/event-stream"
TOWER = "The Eiffel Tower stands in Paris. It is 330 metres tall. Item 7 costs 12 euros."
CONTEXT = {"groundwire": {"context": [{"content": TOWER}]}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
NETWORK_BYTES = 65_536
"""What an upstream's connection gives at a time."""

Case = tuple[bytes, str, list[bytes]]
"""The request's body; the answer's content type and bytes, as its connection gives them."""


def request(messages: Sequence[Any] = ({"role": "user", "content": "What does item 7 cost?"},), **fields: Any) -> bytes:
    return json.dumps({"model": "gpt-4o", "messages": list(messages), **fields}, ensure_ascii=False).encode()


def whole(text: str) -> tuple[str, list[bytes]]:
    return body(completion(text))


def body(answer: Any) -> tuple[str, list[bytes]]:
    return JSON, _pieces(json.dumps(answer, ensure_ascii=False).encode())


def events(chunks: Sequence[bytes]) -> tuple[str, list[bytes]]:
    return EVENTS, _pieces(b"".join(chunks))


def _pieces(said: bytes) -> list[bytes]:
    return [said[start : start + NETWORK_BYTES] for start in range(0, len(said), NETWORK_BYTES)]


SHORT = whole("Item 7 costs 12 euros.")


def called(i: int, name: str = "f") -> dict[str, Any]:
    return {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps({"x": i})}}


def messages(n: int, run: int) -> Case:
    said = [
        {"role": ("user", "assistant")[i % 2], "content": f"Message {i} of {run} says that item {i} costs {i} euros."} for i in range(n - 1)
    ]
    return request([*said, {"role": "user", "content": "What does item 7 cost?"}]), *SHORT


def tiny_messages(n: int, run: int) -> Case:
    said = [{"role": ("user", "assistant")[i % 2], "content": f"ok {i} {run}"} for i in range(n - 1)]
    return request([*said, {"role": "user", "content": "What does item 7 cost?"}]), *SHORT


def tool_calls(n: int, run: int) -> Case:
    """One step with n calls and their n results."""
    results = [{"role": "tool", "tool_call_id": f"c{i}", "content": f"Result {i} of {run}: item {i} costs {i} euros."} for i in range(n)]
    said = {"role": "assistant", "content": None, "tool_calls": [called(i, f"tool_{i % 7}") for i in range(n)]}
    return request([{"role": "user", "content": "What does item 7 cost?"}, said, *results]), *SHORT


def tool_steps(n: int, run: int) -> Case:
    """n / 2 steps of one retrieval each."""
    said: list[Any] = [{"role": "user", "content": "Find out."}]
    for i in range(n // 2):
        said.append({"role": "assistant", "content": None, "tool_calls": [called(i, "kb_search")]})
        said.append({"role": "tool", "tool_call_id": f"c{i}", "content": f"Result {i} of {run}: item {i} costs {i} euros."})
    return request([*said, {"role": "user", "content": "What does item 7 cost?"}]), *SHORT


def calls_of_an_answer(n: int, run: int) -> Case:
    made = completion("")
    made["choices"][0]["message"]["tool_calls"] = [called(i) for i in range(n)]
    return request(tools=[TOOL], **CONTEXT), *body(made)


def calls_of_a_stream(n: int, run: int) -> Case:
    made = [chunk({"tool_calls": [{"index": i, **called(i)}]}) for i in range(n)]
    return request(stream=True, tools=[TOOL], **CONTEXT), *events([*made, chunk({}, "tool_calls"), b"data: [DONE]\n\n"])


def tools(n: int, run: int) -> Case:
    offered = [{"type": "function", "function": {**TOOL["function"], "name": f"tool_{i}", "description": f"{run} {i}"}} for i in range(n)]  # type: ignore[dict-item]
    return request(tools=offered), *SHORT


def passages(n: int, run: int) -> Case:
    found = [{"content": f"Item {i} costs {i} euros in shop {i * 7} of {run}.", "source": f"s{i}"} for i in range(n)]
    return request(groundwire={"context": found}), *SHORT


def marked_passages(n: int, run: int) -> Case:
    found = "\n".join(f"<document>Item {i} costs {i} euros in shop {i * 7} of {run}.</document>" for i in range(n))
    return request([{"role": "user", "content": f"<documents>\n{found}\n</documents>\nWhat does item 7 cost?"}]), *SHORT


def _sentences(n: int, run: int) -> list[str]:
    return [f"Item {i} costs {i} euros in {run}. " for i in range(n)]


def sentences(n: int, run: int) -> Case:
    return request(**CONTEXT), *whole("".join(_sentences(n, run)))


def sentences_of_a_stream(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed(_sentences(n, run)))


def sentences_of_one_event(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed(["".join(_sentences(n, run))]))


def short_lines_of_a_stream(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed(["a\tb\n" * 64] * (n // 64)))


def ideographs_of_a_stream(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed(["中。" * 64] * (n // 64)))


def one_word(n: int, run: int) -> Case:
    """n tokens without a space in the question, and in a passage."""
    word = f"x{run}z7" * n
    return request([{"role": "user", "content": word}], groundwire={"context": [{"content": word}]}), *SHORT


def one_word_as_answer(n: int, run: int) -> Case:
    return request(**CONTEXT), *whole(f"x{run}z7" * n)


def one_word_of_a_stream(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed([f"x{run}z7" * 64] * (n // 64)))


def one_event(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed([f"x{run}z7" * n]))


def many_events(n: int, run: int) -> Case:
    return request(stream=True, **CONTEXT), *events(streamed(["word "] * n))


def nested_lists(n: int, run: int) -> Case:
    """Refused with 400: JSON of more than 254 levels is not written again."""
    return request()[:-1] + b', "x": ' + b"[" * n + b"]" * n + b"}", *SHORT


def nested_objects(n: int, run: int) -> Case:
    """Refused with 400, as well."""
    return request()[:-1] + b', "x": ' + b'{"a":' * n + b"1" + b"}" * n + b"}", *SHORT


def nested_arguments(n: int, run: int) -> Case:
    made = completion("")
    made["choices"][0]["message"]["tool_calls"] = [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x":' + "[" * n + "]" * n + "}"}}
    ]
    return request(tools=[TOOL], **CONTEXT), *body(made)


def nested_result(n: int, run: int) -> Case:
    said = [
        {"role": "user", "content": "Find out."},
        {"role": "assistant", "content": None, "tool_calls": [called(0, "kb_search")]},
        {"role": "tool", "tool_call_id": "c0", "content": "[" * n + "]" * n},
    ]
    return request(said), *SHORT


CASES: tuple[Callable[[int, int], Case], ...] = (
    messages,
    tiny_messages,
    tool_calls,
    tool_steps,
    calls_of_an_answer,
    calls_of_a_stream,
    tools,
    passages,
    marked_passages,
    sentences,
    sentences_of_a_stream,
    sentences_of_one_event,
    short_lines_of_a_stream,
    ideographs_of_a_stream,
    one_word,
    one_word_as_answer,
    one_word_of_a_stream,
    one_event,
    many_events,
    nested_lists,
    nested_objects,
    nested_arguments,
    nested_result,
)


class _Vectors:
    """An embedder for next to nothing."""

    name, dimensions, problem = "cheap", 16, None

    async def load(self) -> None: ...

    def stop(self) -> None: ...

    def reading_since(self, moment: float) -> bool:
        return False

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        found = np.ones((len(texts), 16), np.float32)
        for start in range(0, len(texts), 512):
            some = [hashlib.blake2b(t.encode("utf-8", "replace"), digest_size=16).digest() for t in texts[start : start + 512]]
            found[start : start + 512] = np.frombuffer(b"".join(some), np.uint8).reshape(-1, 16)
            await asyncio.sleep(0)
        unit: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit


class _Ranker:
    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking:
        return ToolRanking(tuple(1 / (i + 1) for i in range(len(tools))))

    async def learn(self, *given: Any, **more: Any) -> None: ...

    async def stop(self) -> None: ...


class _Verifiers(ScriptedVerifiers):
    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        return [Support(0.9, 0.02)] * len(pairs)


def make_app(folder: Path, upstream: MemoryUpstream, timeout_ms: float | None = None) -> App:
    """The shipped policies, each below its name, in front of `upstream`; with `timeout_ms` for every stage's own time."""
    routes = "".join(f"  - {{prefix: /{name}, upstream: main, policy: '{FOLDER / name}.yaml'}}\n" for name in POLICIES)
    (folder / "config.yaml").write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db', bodies: true}}\n"
        "upstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:1/v1', api_key: forward}}\n"
        f"models: {{gpt-4o: {{window: 100000000}}}}\nroutes:\n{routes}",
        encoding="utf-8",
    )
    app = App(load_settings(folder / "config.yaml", {}), make=lambda name, settings: upstream, verifiers=_Verifiers())
    app.models._make = lambda: (_Vectors(), _Ranker())  # type: ignore[assignment,return-value]
    for route in app.routes if timeout_ms else ():
        for stage in route.default.pipeline.stages:
            stage.options = replace(stage.options, timeout_ms=timeout_ms)
    return app
