"""What do Responses and Messages cost beside chat completions? The same conversation in each of the three, through the whole proxy.

    python -m benchmarks.dialects            # about two minutes

No sockets: a request goes in as ASGI messages, and the upstream answers at once from memory, so that the time is the proxy's own. Rounds
are interleaved over dialects, and each figure is divided by chat's of the same round. Prints a table, writes results/dialects.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.load.statistics import SEED, estimate, percentile
from proxy.app import App
from proxy.config.settings import load_settings
from tests.memory_upstream import MemoryUpstream

RESULTS = Path(__file__).resolve().parent / "results" / "dialects.json"
POLICIES = {"empty": "name: empty\ndelivery: tap\nstages: []\n", "default": ""}
GOAL = 1.3
"""Of chat's time."""
WORDS = "The gauge at the pier shows that the water rises, and it will turn before the ferry leaves. "
Body = dict[str, Any]


def chat_messages(turns: int) -> list[Body]:
    """A system prompt, `turns` of a user and an agent that calls a tool, and a question."""
    found: list[Body] = [{"role": "system", "content": "You know the tides. " + WORDS * 5}]
    for i in range(turns):
        call = {"id": f"call_{i}", "type": "function", "function": {"name": "read_gauge", "arguments": f'{{"pier": {i}}}'}}
        found += [
            {"role": "user", "content": f"Turn {i}. {WORDS}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{i}", "content": f"{i}.5 feet. {WORDS * 3}"},
            {"role": "assistant", "content": f"It shows {i}.5 feet. {WORDS}"},
        ]
    return [*found, {"role": "user", "content": "When does the tide turn?"}]


def requests(turns: int) -> dict[str, tuple[str, Body]]:
    """Path and body of one conversation in each dialect."""
    parameters = {"type": "object", "properties": {"pier": {"type": "integer"}}}
    function = {"name": "read_gauge", "description": "What a gauge shows.", "parameters": parameters}
    return in_each_dialect({"model": "gpt-4o", "messages": chat_messages(turns), "tools": [{"type": "function", "function": function}]})


def in_each_dialect(chat: Body) -> dict[str, tuple[str, Body]]:
    """Path and body of a chat completion's request in each dialect; of its system messages it may have one, at the beginning."""
    items: list[Body] = []
    turned: list[Body] = []
    for message in chat["messages"]:
        (call,) = message.get("tool_calls", [None])
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]})
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            turned.append({"role": "user", "content": [result]})
        elif call is not None:
            function = call["function"]
            items.append({"type": "function_call", "call_id": call["id"], **function})
            use = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}
            turned.append({"role": "assistant", "content": [use]})
        elif message["role"] != "system":
            items.append(message)
            turned.append(message)
    first = chat["messages"][0]
    instructions = first["content"] if first["role"] == "system" else None
    rest = {name: value for name, value in chat.items() if name not in ("messages", "tools")}
    responses, messages = {**rest, "input": items, "store": False}, {**rest, "max_tokens": 1000, "messages": turned}
    if instructions is not None:
        responses["instructions"] = messages["system"] = instructions
    if functions := [tool["function"] for tool in chat.get("tools", ())]:
        responses["tools"] = [{"type": "function", **function} for function in functions]
        messages["tools"] = [{("input_schema" if name == "parameters" else name): of for name, of in one.items()} for one in functions]
    return {"chat": ("/chat/completions", chat), "responses": ("/responses", responses), "messages": ("/messages", messages)}


def answers(words: Sequence[str]) -> dict[str, tuple[bytes, list[bytes]]]:
    """The same answer in each dialect: whole, and streamed a word at a time."""
    text = "".join(words)
    head = {"id": "chatcmpl-1", "created": 1700000000, "model": "gpt-4o"}
    usage = {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    chat = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    deltas = [({"role": "assistant", "content": ""}, None), *(({"content": word}, None) for word in words), ({}, "stop")]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} for delta, finish in deltas]
    chat_events = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks] + [b"data: [DONE]\n\n"]
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    counted = {"input_tokens": 9, "output_tokens": 30, "total_tokens": 39}
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-4o", "output": [item], "usage": counted}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "gpt-4o", "content": [{"type": "text", "text": text}]}
    message |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 30}}
    return {
        "chat": (json.dumps(chat).encode(), chat_events),
        "responses": (json.dumps(response).encode(), _named(_response_events(response, item, part, words))),
        "messages": (json.dumps(message).encode(), _named(_message_events(message, words))),
    }


def _response_events(response: Body, item: Body, part: Body, words: Sequence[str]) -> list[Body]:
    begun, where = {**response, "status": "in_progress", "output": []}, {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    told: list[Body] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **where, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return [{**one, "sequence_number": number} for number, one in enumerate(told)]


def _message_events(message: Body, words: Sequence[str]) -> list[Body]:
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    ]


def _named(told: Sequence[Body]) -> list[bytes]:
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in told]


async def ask(app: App, path: str, body: bytes) -> float:
    """Seconds of one request, from its body to the answer's last byte. Raises `RuntimeError` for any status but 200."""
    got: list[Any] = []
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "query_string": b""}
    scope |= {"path": path, "raw_path": path.encode(), "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 4000)}

    async def receive() -> Any:
        return sent.pop() if sent else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        got.append(message)

    began = time.perf_counter()
    await app(scope, receive, send)
    taken = time.perf_counter() - began
    if got[0]["status"] != 200:
        raise RuntimeError(f"{path}: {got[0]['status']} {got[-1].get('body', b'')[:300]!r}")
    return taken


async def measure(given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A row for each policy, conversation, way of answering and dialect."""
    policies = {**POLICIES, "default": given.policy.read_text(encoding="utf-8")}
    for name, text in policies.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    routes = [{"prefix": f"/{name}", "upstream": "main", "policy": f"{name}.yaml"} for name in policies]
    settings = {
        "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db"},
        "upstreams": {
            "main": {
                "kind": "openai",
                "apis": ["chat", "responses", "messages"],  # nothing is translated
                "base_url": "http://127.0.0.1:9/v1",
                "retries": {"attempts": 0},
            }
        },
        "routes": routes,
    }
    (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    upstream = MemoryUpstream(pauses=False, keeps=False)
    app = App(load_settings(folder / "config.yaml", {}), make=lambda name, options: upstream)
    await app.start()
    await app.models.load()
    said = answers([word + " " for word in (WORDS * 2).split()])
    rows = []
    for policy in policies:
        for conversation, turns in (("one question", 0), (f"{4 * given.turns + 2} messages", given.turns)):
            for streamed in (False, True):
                times = await _times(app, upstream, policy, requests(turns), said, streamed, given.rounds)
                rows += [_row(policy, conversation, streamed, dialect, times) for dialect in times]
    await app.stop()
    return rows


async def _times(
    app: App,
    upstream: MemoryUpstream,
    policy: str,
    asked: Mapping[str, tuple[str, Body]],
    said: Mapping[str, tuple[bytes, list[bytes]]],
    streamed: bool,
    rounds: int,
) -> dict[str, list[float]]:
    """Milliseconds of each round, after three that warm up."""
    found: dict[str, list[float]] = {dialect: [] for dialect in asked}
    for number in range(rounds + 3):
        for dialect, (path, body) in asked.items():
            whole, told = said[dialect]
            upstream.kind, upstream.pieces = ("text/event-stream", told) if streamed else ("application/json", [whole])
            sent = json.dumps({**body, "stream": streamed, "metadata": {"round": str(number)}}).encode()
            taken = await ask(app, f"/{policy}/v1{path}", sent)
            await asyncio.sleep(0.002)  # what is done after an answer has left is not the next one's
            if number >= 3:
                found[dialect].append(taken * 1000)
    return found


def _row(policy: str, conversation: str, streamed: bool, dialect: str, times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    mine = times[dialect]
    ratio = estimate([own / chat for own, chat in zip(mine, times["chat"], strict=True)])
    return {
        "policy": policy,
        "conversation": conversation,
        "answer": "streamed" if streamed else "whole",
        "dialect": dialect,
        "p50_ms": round(percentile(mine, 0.5), 3),
        "p95_ms": round(percentile(mine, 0.95), 3),
        "p50_ratio_to_chat": round(percentile(mine, 0.5) / percentile(times["chat"], 0.5), 3),
        "ratio_by_round": ratio.as_json(),
    }


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.dialects", description=__doc__.split("\n\n")[0])
    options.add_argument("--rounds", type=int, default=150)
    options.add_argument("--turns", type=int, default=100, help="of the long conversation; each is four messages")
    options.add_argument("--policy", type=Path, default=Path(__file__).parents[1] / "policies" / "default.yaml", help="the default policy")
    options.add_argument("--output", type=Path, default=RESULTS)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="dialects-") as folder:
        rows = asyncio.run(measure(given, Path(folder)))
    print(f"generated conversations; n {given.rounds} interleaved rounds a row; bootstrap seed {SEED}; baseline: chat in the same round")
    print(f"machine: {platform.machine()}, Python {platform.python_version()}; goal: p50 within {GOAL} of chat's\n")
    print(f"{'policy':9}{'conversation':16}{'answer':10}{'dialect':11}{'p50 ms':>9}{'p95 ms':>9}  {'of chat':>7}  mean ratio [95%]")
    for row in rows:
        by_round = row["ratio_by_round"]
        interval = f"{by_round['mean']:.2f} [{by_round['low']:.2f}, {by_round['high']:.2f}]"
        over = "" if row["p50_ratio_to_chat"] <= GOAL else "  above the goal"
        place = f"{row['policy']:9}{row['conversation']:16}{row['answer']:10}{row['dialect']:11}"
        print(f"{place}{row['p50_ms']:9.2f}{row['p95_ms']:9.2f}  {row['p50_ratio_to_chat']:7.2f}  {interval}{over}")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps({"goal": GOAL, "rounds": given.rounds, "seed": SEED, "rows": rows}, indent=1))
    print(f"\nwritten: {given.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
