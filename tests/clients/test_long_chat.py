"""openai-python in a chat of sixty turns with tools, in a window of 8,192 tokens that the chat outgrows more than twice.

The provider refuses what OpenAI's API refuses, by its own reading of the rules. As a model it calls the client's tool, and asked for
an exact value it reads the archive, by the references that it finds in its prompt. SmolLM2 holds a plain chat in a smaller one.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from proxy.models.tokens.counter import TiktokenCounter
from proxy.testing import ReceivedCall, chunk, completion, reply, stream
from proxy.upstreams.gguf import default_model_path
from proxy.wire.requests import output_requirements_of
from tests.clients.conftest import DELIVERIES, HERE, client_python, run_script
from tests.clients.servers import Servers, serve

pytestmark = pytest.mark.clients

WINDOW_TOKENS = 8192
TURNS = 60
READ = "groundwire_read_archive"
POLICY = "name: long\ndelivery: {0}\nstages:\n  - budget: {{window: {1}}}\n  - compression: {{}}\n"
CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{provider: {{kind: openai, base_url: '{upstream}', api_key: sk-test, retries: {{attempts: 0}}}}}}
routes:
  - {{prefix: /tap, upstream: provider, policy: tap.yaml}}
  - {{prefix: /gate, upstream: provider, policy: gate.yaml}}
  - {{prefix: /hold, upstream: provider, policy: hold.yaml}}
"""
REFERENCE = re.compile(rf"\[archived [^\[\]]*: {READ} (sp_[0-9a-f]+)\]")
HEADER = re.compile(
    r"none;(below-threshold|nothing-left|failed-kept-original)"
    r"|(stored|(trim|summarize|archive)(\+(trim|summarize|archive))*);(?P<before>\d+)->(?P<after>\d+);\d+\.\dx"
)

# ---- the provider ----

Message = dict[str, Any]


class Answered(Struct):
    """A call that the provider answered."""

    messages: list[Message]
    tools: list[Message]
    calls: list[str]
    """Names of the tools that the answer calls."""
    usage: list[int]

    def rendered(self) -> bytes:
        """What a prompt cache sees: the tools, then the messages."""
        return "\n".join(json.dumps(part, ensure_ascii=False) for part in (*self.tools, *self.messages)).encode()


class Provider:
    """An API with a window of 8,192 tokens, and the model behind it."""

    def __init__(self) -> None:
        self.answered: list[Answered] = []
        self.refused: list[str] = []
        self._counter = TiktokenCounter({})

    async def __call__(self, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        body = call.json
        messages, tools = body["messages"], body.get("tools") or []
        counted = self._counter.model("gpt-4o")
        prompt_tokens = (await self._counter.count_request(messages, tools, output_requirements_of(body), counted)).used_tokens
        problem, code = broken_rule(messages, tools), None
        if prompt_tokens > WINDOW_TOKENS:
            problem = f"This model's maximum context length is {WINDOW_TOKENS} tokens. Your messages resulted in {prompt_tokens} tokens."
            code = "context_length_exceeded"
        if problem:
            self.refused.append(problem)
            error = {"message": problem, "type": "invalid_request_error", "param": "messages", "code": code}
            await reply({"error": error}, 400)(writer, call)
            return
        said = answer(messages, [tool["function"]["name"] for tool in tools])
        calls = said.get("tool_calls", [])
        completion_tokens = self._counter.count_text(said["content"] or json.dumps(calls), counted)
        usage = [prompt_tokens, completion_tokens, prompt_tokens + completion_tokens]
        self.answered.append(Answered(messages, tools, [made["function"]["name"] for made in calls], usage))
        figures = dict(zip(("prompt_tokens", "completion_tokens", "total_tokens"), usage, strict=True))
        if body.get("stream"):
            await stream(events(said, figures, usage_wanted=bool((body.get("stream_options") or {}).get("include_usage"))))(writer, call)
        else:
            finish = "tool_calls" if calls else "stop"
            choice = {"index": 0, "message": {**said, "refusal": None}, "logprobs": None, "finish_reason": finish}
            await reply(completion(choices=[choice], usage=figures))(writer, call)


def broken_rule(messages: Sequence[Message], tools: Sequence[Message]) -> str:
    """The rule of OpenAI's API that a request breaks, or ""."""
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        return "tools: names must be unique"
    open_ids: list[str] = []
    for i, message in enumerate(messages):
        role, calls = message.get("role"), message.get("tool_calls")
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                return f"messages[{i}]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            open_ids.remove(message["tool_call_id"])
        elif open_ids:
            return f"messages[{i}]: 'tool_calls' must be followed by tool messages responding to {open_ids}"
        elif role not in ("system", "developer", "user", "assistant"):
            return f"messages[{i}]: invalid role {role!r}"
        if calls is not None and (role != "assistant" or not calls):
            return f"messages[{i}]: unexpected or empty 'tool_calls'"
        if not isinstance(message.get("content"), str) and not calls:
            return f"messages[{i}]: invalid content"
        open_ids += [call["id"] for call in calls or ()]
    return f"unanswered 'tool_calls': {open_ids}" if open_ids or not messages else ""


def events(said: Message, figures: dict[str, int], *, usage_wanted: bool) -> list[bytes]:
    """The answer as a stream: text by words, arguments in pieces."""
    found = [chunk({"role": "assistant", "content": None if "tool_calls" in said else ""})]
    for i, made in enumerate(said.get("tool_calls", [])):
        arguments = made["function"]["arguments"]
        found.append(chunk({"tool_calls": [{"index": i, **made, "function": {**made["function"], "arguments": ""}}]}))
        pieces = [arguments[j : j + 9] for j in range(0, len(arguments), 9)]
        found += [chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]}) for piece in pieces]
    found += [chunk({"content": piece}) for piece in re.findall(r"\s*\S+", said["content"] or "")]
    found.append(chunk({}, "tool_calls" if "tool_calls" in said else "stop"))
    if usage_wanted:
        found.append(chunk({}, choices=[], usage=figures))
    return [*found, b"data: [DONE]\n\n"]


# ---- the model ----


def answer(messages: Sequence[Message], offered: Sequence[str]) -> Message:
    """The model's next message: it goes by its prompt alone."""
    last_user = max(i for i, message in enumerate(messages) if message["role"] == "user")
    asked, since = messages[last_user]["content"], messages[last_user + 1 :]
    results = [message["content"] for message in since if message["role"] == "tool"]
    if found := re.search(r"Which release code did order (\d+) have", asked):
        exact = re.compile(rf"{found[1]}\W+release_code\W+(RC-[0-9a-f]+)")
        return exact_value(messages, results, offered, exact, "" if "page by page" in asked else f"{found[1]} release_code")
    if "customer number, exactly" in asked:
        return exact_value(messages, results, offered, re.compile(r"customer number is (KD-[\d-]+)"), "customer number")
    if "budget that I told you" in asked:
        return exact_value(messages, results, offered, re.compile(r"quarter is ([\d,.]+ EUR)"), "budget quarter")
    if orders := re.findall(r"order (\d+)", asked):
        if not results:
            return calls(len(messages), *(("get_order", {"order": order}) for order in orders))
        return says(f"Order {' and order '.join(orders)}: packed, {len(results)} looked up. Shall I print the labels for the next carrier?")
    return says(
        "Noted. The night shift has been told about the ramp, the papers will be ready before the carrier comes, and the dangerous goods "
        "stay where they are. I have written a reminder for the stocktaking, and the aisle is closed until it is done. Anything else?"
    )


def exact_value(
    messages: Sequence[Message], results: Sequence[str], offered: Sequence[str], exact: re.Pattern[str], search: str
) -> Message:
    """Read the archive until the value is found: one reference after the other, by a search, or else the first one's pages."""
    for result in results:
        if found := exact.search(result):
            return says(f"I have read it: {found[1]}")
    references = list(dict.fromkeys(REFERENCE.findall("\n".join(str(m["content"]) for m in messages if m["role"] != "assistant"))))
    tries = [{"id": one, "search": search} for one in references] if search else [{"id": references[0], "page": p} for p in range(1, 5)]
    if READ not in offered or len(results) >= len(tries):
        return says("I cannot find it.")
    return calls(len(messages), (READ, tries[len(results)]))


def calls(number: int, *wanted: tuple[str, dict[str, Any]]) -> Message:
    made = [
        {"id": f"call_{number}_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(wanted)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def says(text: str) -> Message:
    return {"role": "assistant", "content": text}


# ---- the chats ----


class Chat(Struct):
    """A chat as its client and its provider saw it."""

    client: Any
    """``requests``, ``answers`` and ``failed`` of the script."""
    facts: dict[str, str]
    rounds: list[list[Answered]]
    """For each of the client's requests the provider's calls: each but the last read the archive."""
    refused: list[str]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    client_python()
    policies = {name: POLICY.format(name, WINDOW_TOKENS) for name in DELIVERIES}
    with Servers(tmp_path_factory.mktemp("servers"), Provider(), CONFIG, policies) as running:
        yield running


def chat_at(servers: Servers, base_url: str, folder: Path) -> Chat:
    provider = servers.provider
    assert isinstance(provider, Provider)
    provider.answered, provider.refused = [], []
    got = run_script([client_python(), HERE / "scripts/long_chat.py"], folder, base_url)
    rounds: list[list[Answered]] = [[]]
    for answered in provider.answered:
        rounds[-1].append(answered)
        if READ not in answered.calls:
            rounds.append([])
    return Chat(got["chat"], got["facts"], rounds[:-1], provider.refused)


@pytest.fixture(scope="module")
def direct(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Chat:
    return chat_at(servers, servers.provider_url, tmp_path_factory.mktemp("direct"))


@pytest.fixture(scope="module", params=DELIVERIES)
def chat(request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Chat:
    return chat_at(servers, f"{servers.url}/{request.param}/v1", tmp_path_factory.mktemp(request.param))


def is_crossing(compression: str) -> bool:
    """Whether a request was compressed anew."""
    return not compression.startswith(("none;", "stored;"))


def repeated_bytes(before: bytes, now: bytes) -> int:
    """Bytes at the beginning of `now` that are those of `before`."""
    return next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))


@pytest.mark.parametrize(
    ("roles", "rule"),
    [
        (["user", "result"], "must be a response to a preceding message"),
        (["user", "call", "user"], "must be followed by tool messages"),
        (["user", "call"], "unanswered"),
        (["user", "nobody"], "invalid role"),
        (["user", "call", "result", "assistant"], ""),
    ],
)
def test_the_provider_refuses_what_the_api_refuses(roles: list[str], rule: str) -> None:
    special = {"call": calls(1, ("get_order", {})), "result": {"role": "tool", "tool_call_id": "call_1_0", "content": "{}"}}
    found = broken_rule([special.get(role, {"role": role, "content": "Hello."}) for role in roles], [])
    assert rule in found if rule else not found


def test_without_the_proxy_the_chat_ends_at_the_window(direct: Chat) -> None:
    failed = direct.client["failed"]
    assert ("BadRequestError", "context_length_exceeded") == (failed["kinds"][0], failed["code"])
    assert len(direct.client["answers"]) < TURNS


def test_all_turns_succeed(chat: Chat) -> None:
    assert (None, TURNS) == (chat.client["failed"], len(chat.client["answers"]))
    assert [] == chat.refused


def test_what_was_said_early_is_read_back_to_the_letter(chat: Chat) -> None:
    assert {turn: f"I have read it: {fact}" for turn, fact in chat.facts.items()} == {
        turn: chat.client["answers"][int(turn)] for turn in chat.facts
    }


def test_what_is_read_back_had_left_the_prompt(chat: Chat) -> None:
    read = [calls[0] for calls in chat.rounds if len(calls) > 1]
    assert len(chat.facts) == len(read)
    codes = [chat.facts[turn] for turn in ("37", "46", "58")]
    prompts = [read[i].rendered() for i in (0, 2, 4)]
    assert [] == [code for code, prompt in zip(codes, prompts, strict=True) if code.encode() in prompt]


def test_the_client_sees_its_own_tool_only(chat: Chat) -> None:
    requests = chat.client["requests"]
    assert {"get_order"} == {name for request in requests for name in request["names"]}
    assert {True, False} == {r["streamed"] for r, calls in zip(requests, chat.rounds, strict=True) if len(calls) > 1}


def test_usage_adds_up(chat: Chat) -> None:
    expected = [[sum(figures) for figures in zip(*(call.usage for call in calls), strict=True)] for calls in chat.rounds]
    assert expected == [request["usage"] for request in chat.client["requests"]]


def test_the_header_says_what_was_done(chat: Chat) -> None:
    said = [request["compression"] for request in chat.client["requests"]]
    found = [HEADER.fullmatch(text) for text in said]
    assert [] == [text for text, match in zip(said, found, strict=True) if match is None]
    sizes = [(int(match["before"]), int(match["after"])) for match in found if match is not None and match["before"]]
    assert all(after < before for before, after in sizes)
    assert [calls[0].usage[0] for calls in chat.rounds][-len(sizes) :] == [after for _, after in sizes]
    assert 2 <= sum(map(is_crossing, said)) <= 8


def test_the_prefix_is_repeated_outside_the_crossings(chat: Chat) -> None:
    """Bytes of tools and messages, in the order in which a prompt is cached."""
    turns = [(request["compression"], calls[0].rendered()) for request, calls in zip(chat.client["requests"], chat.rounds, strict=True)]
    between = [(before, now) for (_, before), (said, now) in pairwise(turns) if not is_crossing(said)]
    assert [len(before) for before, _ in between] == [repeated_bytes(before, now) for before, now in between]
    assert sum(len(before) for before, _ in between) / sum(len(now) for _, now in between) > 0.9


# ---- the embedded model ----

EMBEDDED_WINDOW_TOKENS = 1024
EMBEDDED_TURNS = 12
"""An eighth of what SmolLM2 can take, and a fifth of the turns: sixty in 8,192 tokens succeed too, but take two minutes on two cores."""
EMBEDDED_CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{local: {{kind: embedded, window: {window}, parallel: 1}}}}
routes:
  - {{prefix: "", upstream: local, policy: long.yaml}}
  - {{prefix: /uncompressed, upstream: local, policy: plain.yaml}}
"""


@pytest.mark.slow
def test_the_embedded_model_holds_a_chat_beyond_its_window(tmp_path: Path) -> None:
    if not default_model_path().exists():
        pytest.skip("no embedded model: `groundwire fetch-model` fetches it")
    (tmp_path / "long.yaml").write_text(POLICY.format("tap", EMBEDDED_WINDOW_TOKENS), encoding="utf-8")
    (tmp_path / "plain.yaml").write_text("name: plain\ndelivery: tap\nstages: []\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text(EMBEDDED_CONFIG.format(folder=tmp_path, window=EMBEDDED_WINDOW_TOKENS), encoding="utf-8")
    with serve(tmp_path) as url:
        command = [client_python(), HERE / "scripts/long_chat_embedded.py"]
        more = {"TURNS": str(EMBEDDED_TURNS), "UNCOMPRESSED_BASE_URL": f"{url}/uncompressed/v1"}
        chat = run_script(command, tmp_path, f"{url}/v1", **more)["chat"]
    assert ("BadRequestError", "context_length_exceeded") == (chat["uncompressed"]["kinds"][0], chat["uncompressed"]["code"])
    turns = chat["turns"]
    assert EMBEDDED_TURNS == len(turns)
    assert all(turn["text"] and turn["finish"] in ("stop", "length") for turn in turns)
    assert max(turn["tokens"] for turn in turns) + 8 <= EMBEDDED_WINDOW_TOKENS
    assert 1 <= sum(is_crossing(turn["compression"]) for turn in turns) <= 4
