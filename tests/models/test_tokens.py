"""Token counts: exact where recorded figures say so, bounded and honest everywhere else."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.config.settings import ModelSettings
from proxy.exchange import ContextUse
from proxy.exchange.answers import OutputRequirements
from proxy.models.tokens import encodings
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tokens.encodings import ESTIMATE, Encodings, pieces
from proxy.wire.requests import output_requirements_of
from tests.cost import below
from tests.examples import share

COUNTER = TiktokenCounter({"my-model": ModelSettings(window=8192, max_output_tokens=1024, encoding="o200k_base")})
RECORDED = [json.loads(line) for line in (Path(__file__).parent / "data" / "usage.jsonl").read_text("utf-8").splitlines()]
SECONDS = 10
"""For what takes a second at worst; a quadratic count would take minutes."""


def use(
    messages: Sequence[Any], tools: Sequence[Any] = (), model: str = "gpt-4o", counter: TiktokenCounter = COUNTER, **params: Any
) -> ContextUse:
    return asyncio.run(counter.count_request(messages, tools, output_requirements_of(params), counter.model(model)))


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def tool(name: str = "f", **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": parameters}}}


# ---- against recorded answers ----


def name_of(case: Mapping[str, Any]) -> str:
    return f"{case['source'].rpartition('/')[2]}-{case['model']}-{case['prompt_tokens']}"


@pytest.mark.parametrize("case", [case for case in RECORDED if case["exact"]], ids=name_of)
def test_an_exact_count_equals_the_recorded_usage(case: dict[str, Any]) -> None:
    counted = use(case["messages"], case.get("tools", ()), case["model"], **case.get("params", {}))
    assert (case["prompt_tokens"], True) == (counted.used_tokens, counted.exact)


@pytest.mark.parametrize("case", [case for case in RECORDED if not case["exact"]], ids=name_of)
def test_a_count_that_is_not_exact_says_so_and_errs_upward_by_little(case: dict[str, Any]) -> None:
    counted = use(case["messages"], case.get("tools", ()), case["model"], **case.get("params", {}))
    assert not counted.exact
    assert case["prompt_tokens"] <= counted.used_tokens <= 1.3 * case["prompt_tokens"]


# ---- models ----


@pytest.mark.parametrize(
    ("name", "encoding", "window"),
    [
        ("gpt-4o", "o200k_base", 128_000),
        ("gpt-4o-2024-08-06", "o200k_base", 128_000),
        ("gpt-4o-2031-01-01", "o200k_base", 128_000),
        ("azure/gpt-4o", "o200k_base", 128_000),
        ("openai/gpt-4", "cl100k_base", 8_192),
        ("gpt-3.5-turbo", "cl100k_base", 16_385),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "o200k_base", 128_000),
        ("o4-mini", "o200k_base", 200_000),
        ("gpt-5", "o200k_base", 272_000),
        ("my-model", "o200k_base", 8_192),
        ("embedded/my-model", "o200k_base", 8_192),
    ],
)
def test_a_name_finds_its_encoding_and_window(name: str, encoding: str, window: int) -> None:
    found = COUNTER.model(name)
    assert (encoding, window) == (found.encoding, found.window_tokens)


@pytest.mark.parametrize(
    "name", ["gpt-5", "azure/gpt-5-mini", "gpt-5.2-2025-12-11", "gpt-5.6", "gemini-2.5-pro", "gemini/gemini-2.5-flash"]
)
def test_some_windows_are_the_prompts_alone(name: str) -> None:
    assert COUNTER.model(name).answers_beside_window


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-5-chat-latest", "gpt-5-pro", "gpt-5.5", "o3", "claude-sonnet-4-5", "my-model", "nobody"])
def test_other_windows_are_for_prompt_and_answer(name: str) -> None:
    assert not COUNTER.model(name).answers_beside_window


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro", "mistral/mistral-small"])
def test_a_model_without_public_tokenizer_is_never_exact(name: str) -> None:
    assert not COUNTER.model(name).exact
    assert not use([user("hello")], model=name).exact


@pytest.mark.parametrize("name", ["gpt-4-x-alpaca", "lmstudio/gpt-4o", "gpt-9", "", "ft:", "a/b/c/", "\ud800"])
def test_a_lookalike_or_odd_name_has_no_encoding(name: str) -> None:
    assert COUNTER.model(name).encoding is None


def test_an_unknown_model_has_no_window_and_is_estimated() -> None:
    counted = use([user("hello")], model="nobody/knows-this")
    assert (counted.window_tokens, counted.exact, counted.share) == (None, False, 0.0)


def test_prices_come_from_the_bundled_list() -> None:
    found = COUNTER.model("gpt-4o")
    assert (found.input_usd_per_token, found.output_usd_per_token, found.max_output_tokens) == (2.5e-6, 1e-5, 16_384)


def test_configured_models_win_over_the_bundled_list() -> None:
    counter = TiktokenCounter({"gpt-4o": ModelSettings(window=1000)})
    assert (counter.model("openai/gpt-4o").window_tokens, counter.model("gpt-4o").encoding) == (1000, None)


@pytest.mark.process
def test_counting_does_not_import_litellm() -> None:
    program = (
        "import asyncio, sys; from proxy.models.tokens.counter import TiktokenCounter as T; c = T({});"
        "from proxy.exchange.answers import OutputRequirements;"
        "asyncio.run(c.count_request([{'role': 'user', 'content': 'x'}], [], OutputRequirements(), c.model('gpt-4')));"
        "sys.exit(any(name.partition('.')[0] in ('litellm', 'requests') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- vocabularies ----


def test_without_vocabulary_counts_are_estimates_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    counter = TiktokenCounter({}, encodings=Encodings(folders=lambda: ()))
    with caplog.at_level(logging.WARNING):
        counted = [use([user("hello world")], counter=counter) for _ in range(3)]
    assert not counted[0].exact
    assert counted[0].used_tokens == 3 + 2 + 4 + 3
    assert ["TIKTOKEN_CACHE_DIR" in record.getMessage() for record in caplog.records] == [True]


def test_a_damaged_file_is_passed_over_and_left_alone(tmp_path: Path) -> None:
    damaged = tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790"
    damaged.write_bytes(b"not a vocabulary")
    assert not Encodings(folders=lambda: [tmp_path]).load("o200k_base")
    assert damaged.read_bytes() == b"not a vocabulary"


def test_loading_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert Encodings().load("o200k_base")
    assert os.environ["TIKTOKEN_CACHE_DIR"] == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_load_tells_whether_everything_could_be_had() -> None:
    assert COUNTER.load("o200k_base", "cl100k_base")
    assert not TiktokenCounter({}, encodings=Encodings(folders=lambda: ())).load()


def test_a_reading_is_known_to_who_began_before_it_ended() -> None:
    counter, before = TiktokenCounter({}), time.perf_counter()
    assert not counter.reading_since(before)
    counter.load("cl100k_base")
    assert (True, False) == (counter.reading_since(before), counter.reading_since(time.perf_counter()))


def test_an_unknown_encoding_of_the_configuration_is_estimated() -> None:
    counter = TiktokenCounter({"m": ModelSettings(window=100, encoding="no_such_base")})
    assert not use([user("hello")], model="m", counter=counter).exact


# ---- text ----


def test_special_tokens_are_ordinary_text() -> None:
    assert COUNTER.count_text("<|endoftext|>", COUNTER.model("gpt-4o")) == 7


def test_an_estimate_has_a_margin() -> None:
    text = "The committee met on Tuesday to discuss the budget."
    assert COUNTER.count_text(text, COUNTER.model("claude-x")) > 1.25 * COUNTER.count_text(text, COUNTER.model("gpt-4o"))


@pytest.mark.parametrize("text", ["Комитет собрался во вторник", "समिति ने मंगलवार को", "委员会星期二开会讨论预算", "คณะกรรมการประชุมกัน"])
def test_an_estimate_has_more_margin_outside_latin_script(text: str) -> None:
    assert COUNTER.count_text(text, COUNTER.model("claude-x")) > 1.5 * COUNTER.count_text(text, COUNTER.model("gpt-4o"))


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, " " * 1_000_000, "^" * 1_000_000, "\n" * 1_000_000, "😀" * 300_000, "漢字" * 300_000, "1" * 1_000_000]
)
@pytest.mark.cost
def test_a_run_without_boundaries_is_counted_in_bounded_time(text: str) -> None:
    with below(SECONDS):
        counted = Encodings().count(text, "o200k_base")
    assert not counted.exact
    assert 0 < counted.tokens <= len(text.encode())


def test_long_ordinary_text_is_exact() -> None:
    text = "The quick brown fox jumps over the lazy dog, doesn't it?\n\n  And then 1234 dogs.\n" * 3000
    counted = Encodings().count(text, "o200k_base")
    assert (len(tiktoken.get_encoding("o200k_base").encode_ordinary(text)), True) == counted


SPACES = [" ", "  ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u3000", ", ", "\n/"]
WORDS = st.sampled_from(
    [
        "the",
        "Don't",
        "can'",
        "'s",
        "x",
        "WE'LL",
        "naïve",
        "straße",
        "день",
        "漢字",
        "。",
        "，",
        "हिन्दी",
        "12345",
        "²",
        "%",
        "//",
        "e\u0301",
    ]
) | st.sampled_from(["😀", "<|endoftext|>", ".", "_", "/", "%", "//", *SPACES])


@settings(max_examples=share(3))
@given(st.lists(WORDS, max_size=60).map("".join), st.integers(2, 12), st.sampled_from(["cl100k_base", "o200k_base"]))
def test_clean_cuts_do_not_change_the_count(text: str, longest: int, encoding: str) -> None:
    COUNTER.load(encoding)
    tokenizer = tiktoken.get_encoding(encoding)
    cut = list(pieces(text, longest, longest))
    assert "".join(piece for piece, _ in cut) == text
    if all(clean for _, clean in cut):
        assert sum(len(tokenizer.encode_ordinary(piece)) for piece, _ in cut) == len(tokenizer.encode_ordinary(text))


@settings(max_examples=share(2))
@given(st.lists(st.text(st.characters(codec=None), min_size=1, max_size=6), max_size=12).map(" ".join), st.integers(2, 9))
def test_clean_cuts_of_any_text_do_not_change_the_count(text: str, longest: int) -> None:
    COUNTER.load("o200k_base")
    tokenizer = tiktoken.get_encoding("o200k_base")
    cut = list(pieces(text, longest, longest))
    if all(clean for _, clean in cut):
        assert sum(len(tokenizer.encode_ordinary(piece)) for piece, _ in cut) == len(tokenizer.encode_ordinary(text))


@given(st.text(st.characters(codec=None)), st.sampled_from(["cl100k_base", "o200k_base", ESTIMATE]))
def test_a_count_is_the_same_from_the_cache(text: str, encoding: str) -> None:
    encodings = Encodings()
    assert encodings.count(text, encoding) == encodings.count(text, encoding) == Encodings().count(text, encoding)


def test_the_cache_is_bounded() -> None:
    encodings = Encodings(max_entries=10)
    for i in range(100):
        encodings.count(f"text {i}", "o200k_base")
    assert [encodings.knows("o200k_base", hash(t), len(t)) for t in ("text 0", "text 99")] == [False, True]


# ---- messages ----

TEXTS = st.text(st.characters(codec=None), max_size=40)
PARTS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda data: {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}, TEXTS),
    st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, TEXTS),
    st.dictionaries(TEXTS, TEXTS | st.integers() | st.none(), max_size=3),
    st.integers() | st.none() | TEXTS,
)
CONTENTS = st.one_of(st.none(), TEXTS, st.lists(PARTS, max_size=4), st.integers(), st.dictionaries(TEXTS, TEXTS, max_size=2))
CALLS = st.lists(
    st.builds(lambda n, a, i: {"id": i, "type": "function", "function": {"name": n, "arguments": a}}, TEXTS, TEXTS, TEXTS) | TEXTS,
    max_size=3,
)
MESSAGES = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "critic"]),
    CONTENTS,
    st.fixed_dictionaries(
        {},
        optional={
            "name": TEXTS,
            "tool_calls": CALLS,
            "tool_call_id": TEXTS,
            "refusal": TEXTS,
            "function_call": CALLS,
            "extra": TEXTS,
        },
    ),
)
MODELS = st.sampled_from(["gpt-4o", "gpt-4", "gpt-5", "claude-x"])


@settings(max_examples=share(1.5))
@given(st.lists(MESSAGES, max_size=5), MODELS)
def test_components_are_never_negative_and_add_up(messages: list[Any], model: str) -> None:
    counted = use(messages, model=model)
    assert min(counted.components.values()) >= 0
    assert sum(counted.components.values()) == counted.used_tokens


@settings(max_examples=share(1.5))
@given(st.lists(MESSAGES, max_size=4), MESSAGES, MODELS, st.booleans())
def test_another_message_never_lowers_the_count(messages: list[Any], more: Any, model: str, with_tools: bool) -> None:
    tools = [tool(x={"type": "string"})] if with_tools else []
    assert use(messages, tools, model).used_tokens <= use([*messages, more], tools, model).used_tokens


@settings(max_examples=share(0.25))
@given(st.lists(MESSAGES, max_size=4), MODELS)
def test_a_request_counts_the_same_again_and_elsewhere(messages: list[Any], model: str) -> None:
    first = use(messages, model=model)
    assert first == use(messages, model=model) == use(messages, model=model, counter=TiktokenCounter({}))


def test_components_follow_the_allocations() -> None:
    messages = [
        system("Be kind."),
        user("One"),
        {"role": "assistant", "content": "Two"},
        user("Three"),
        {"role": "assistant", "content": "4"},
    ]
    counted = use(messages, [tool()])
    assert counted.components == {"system_instructions": 7, "conversation_history": 15, "tool_descriptions": 19, "current_query": 8}


def test_a_schema_for_the_answer_counts_as_instructions() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object", "properties": {}}}}
    counted = use([user("hi")], response_format=schema)
    assert counted.components["system_instructions"] > 5
    assert not counted.exact


def test_json_mode_costs_nothing() -> None:
    assert use([user("hi")]) == use([user("hi")], response_format={"type": "json_object"})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "refusal": "I will not."},
        {"role": "assistant", "content": "Text", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "nobody", "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "hologram", "data": [1, 2]}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
        {"role": "assistant", "content": "x", "reasoning_content": "thinking"},
        {"role": 7, "content": 8},
    ],
)
def test_a_shape_without_recorded_figures_is_not_exact(message: dict[str, Any]) -> None:
    assert not use([message]).exact


# ---- tools ----


def test_more_tools_cost_more() -> None:
    assert use([user("x")], [tool("a")]).used_tokens < use([user("x")], [tool("a"), tool("b")]).used_tokens


@pytest.mark.parametrize(
    "offered",
    [
        tool(x={"$ref": "#/$defs/X"}),
        tool(x={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        tool(x={"type": "string", "default": "y"}),
        tool(x={"type": "object", "properties": {"y": {"type": "string"}}}),
        {"type": "web_search"},
        "nonsense",
    ],
)
def test_a_schema_beyond_the_recorded_ones_is_not_exact(offered: Any) -> None:
    counted = use([user("x")], [offered])
    assert counted.components["tool_descriptions"] > 9
    assert not counted.exact


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {side: {"$ref": "#/$defs/Node"} for side in ("left", "right", "up", "down")}}
    offered = tool(root={"$ref": "#/$defs/Node"})
    offered["function"]["parameters"]["$defs"] = {"Node": node}
    assert 20 < use([user("x")], [offered]).used_tokens < 100


# ---- off the event loop ----


def test_a_large_cold_prompt_leaves_the_event_loop_free() -> None:
    counter = TiktokenCounter({})
    counter.load("o200k_base")

    async def ticks_while_counting() -> int:
        ticks = 0
        task = asyncio.create_task(counter.count_request([user("word " * 400_000)], [], OutputRequirements(), counter.model("gpt-4o")))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0)
        return ticks

    assert asyncio.run(ticks_while_counting()) > 10


def test_a_small_prompt_is_counted_at_once() -> None:
    COUNTER.load("o200k_base")
    counting = COUNTER.count_request([user("hi")], [], OutputRequirements(), COUNTER.model("gpt-4o"))
    with pytest.raises(StopIteration):
        counting.send(None)


def test_a_tool_that_the_providers_own_search_loads_later_stands_in_no_prompt_yet() -> None:
    now, later = ({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("now", "later"))
    asked = [{"role": "user", "content": "Hi"}]
    assert use(asked, [now]) == use(asked, [now, {**later, "defer_loading": True}])


# ---- when vocabularies are read ----


async def test_a_vocabulary_is_read_off_the_event_loop_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def read(name: str, folders: object) -> None:
        threads.append(threading.current_thread().name)
        time.sleep(0.05)

    monkeypatch.setattr(encodings, "_load", read)
    counter = TiktokenCounter({}, encodings=Encodings())
    model = counter.model("gpt-4o")
    await asyncio.gather(*(counter.count_request([user("hello")], (), output_requirements_of({}), model) for _ in range(5)))
    assert 1 == len(threads)
    assert threading.main_thread().name not in threads
