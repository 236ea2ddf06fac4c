"""The suite's runner says rightly what became of a conversation: it would not miss a harm, and finds none where there is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harmless
from benchmarks.harmless_apis import APIS
from benchmarks.harmless_data import Conversation, Harm, load
from benchmarks.harmless_replay import Outcome

ROW: dict[str, Any] = {
    "id": "a-1",
    "kind": "facts",
    "language": "en",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
}


def outcome(name: str = "a-1", turn: int = 1, **found: Any) -> Outcome:
    usual: dict[str, Any] = {
        "last": True,
        "verdict": "pass",
        "codes": (),
        "status": 200,
        "blocked": False,
        "asked": False,
        "deleted": (),
        "lost": (),
        "changed": False,
        "planted_forwarded": True,
        "planted_delivered": True,
        "clashes": 0,
        "overhead_ms": 1.0,
        "detail": {},
    }
    return Outcome(name, turn, **(usual | found))


def written(folder: Path, *rows: dict[str, Any], name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_every_assistant_message_is_a_turn_of_its_own(tmp_path: Path) -> None:
    messages = [*ROW["messages"], {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "See you"}]
    (row,) = load([written(tmp_path, ROW | {"messages": messages})])
    turns = list(row.turns())
    assert [(1, 1, False), (3, 3, True)] == [(turn.index, len(turn.body["messages"]), turn.last) for turn in turns]


def test_passages_go_where_a_client_puts_them(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Hi", "groundwire_context": [{"content": "A passage."}]}
    (row,) = load([written(tmp_path, ROW | {"messages": [asked, ROW["messages"][1]]})])
    body = next(iter(row.turns())).body
    assert {"context": [{"content": "A passage."}]} == body["groundwire"]
    assert [{"role": "user", "content": "Hi"}] == body["messages"]


def test_shared_prompts_and_tools_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "rows.refs.json").write_text(json.dumps({"texts": {"coder": "You write code."}, "tools": {"few": [{"type": "function"}]}}))
    (row,) = load([written(tmp_path, ROW | {"system_ref": "coder", "tools_ref": "few"})])
    assert {"role": "system", "content": "You write code."} == row.messages[0]
    assert [{"type": "function"}] == list(row.tools)


@pytest.mark.parametrize(
    "rows",
    [
        [ROW, ROW],
        [ROW | {"messages": ROW["messages"][:1]}],
        [ROW | {"harm": {"type": "answer", "what": "name", "turn": 1, "planted": "not there"}}],
    ],
    ids=["an id twice", "no answer at the end", "planted words that are not there"],
)
def test_a_row_that_is_not_as_it_should_be_is_refused(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a-1"):
        load([written(tmp_path, *rows)])


@pytest.mark.parametrize("harm", ["blocked", "asked", "changed"])
def test_a_conversation_with_one_harmed_turn_is_harmed(harm: str) -> None:
    result = harmless.Result("rag", {"a-1": [outcome(), outcome(turn=3, **{harm: True})]}, {})
    found = harmless.figures(result, [])
    assert (1, 1) == (found["harmed"], found[harm])


def told(verdict: str, code: str) -> Outcome:
    """A turn on which one check said something."""
    return outcome(verdict=verdict, detail={"verdicts": [{"stage": "claims", "outcome": verdict, "code": code}]})


@pytest.mark.parametrize(
    ("verdict", "code", "warned", "late"),
    [
        ("warn", "claims_contradicted", 1, 0),
        ("error", "check_failed", 1, 0),
        ("error", "check_timeout", 0, 1),
        ("error", "claims_unchecked", 0, 1),
        ("pass", "", 0, 0),
    ],
)
def test_what_a_check_had_no_time_for_is_no_warning(verdict: str, code: str, warned: int, late: int) -> None:
    found = harmless.figures(harmless.Result("agent", {"a": [told(verdict, code)]}, {}), [])
    assert (warned, late) == (found["warned"], found["late"])


def test_limits_are_shares_of_the_conversations() -> None:
    quiet = {f"a-{i}": [outcome()] for i in range(99)}
    warned = harmless.figures(harmless.Result("agent", quiet | {"b": [told("warn", "claims_contradicted")]}, {}), [])
    harmed = harmless.figures(harmless.Result("agent", quiet | {"b": [outcome(blocked=True)]}, {}), [])
    assert [] == harmless.passed(warned)
    assert ["agent: harmed 1 of 100, limit 0%"] == harmless.passed(harmed)
    late = harmless.figures(harmless.Result("agent", quiet | {f"b-{i}": [told("error", "check_timeout")] for i in range(6)}, {}), [])
    assert ["agent: late 6 of 105, limit 5%"] == harmless.passed(late)


def harmful(type_: str, what: str = "name") -> Conversation:
    return Conversation("x", "rag", "en", False, (), harm=Harm(type_, what, 1, "Rome"))


@pytest.mark.parametrize(
    ("type_", "found", "expected"),
    [
        ("answer", {"planted_delivered": False}, True),
        ("answer", {"planted_forwarded": False}, False),
        ("injection", {"planted_forwarded": False}, True),
        ("injection", {"planted_delivered": False}, False),
        ("clash", {"detail": {"verdicts": [{"stage": "clash", "outcome": "warn", "code": "clash_noted"}]}}, True),
        ("clash", {"clashes": 1}, False),
    ],
)
def test_a_harm_is_stopped_where_it_would_do_harm(type_: str, found: dict[str, Any], expected: bool) -> None:
    assert expected == harmless.stopped(harmful(type_), [outcome("x", **found)])


def test_too_few_planted_contradictions_stopped_passes_a_limit() -> None:
    rows = [harmful("answer")]
    found = harmless.figures(harmless.Result("strict", {"a": [outcome()]}, {"x": [outcome("x")]}), rows)
    assert ["strict: stopped 0 of 1 planted contradictions, at least 80%"] == harmless.passed(found, harmless.GOALS)
    assert ["strict: stopped 0 of 1 planted contradictions, at least 8%"] == harmless.passed(found)


def test_a_turn_under_a_real_policy_leaves_as_it_came(tmp_path: Path) -> None:
    rows = load([written(tmp_path, ROW, ROW | {"id": "a-2", "stream": True})])
    result = harmless.run("default", rows, [])
    assert {"a-1": [False], "a-2": [False]} == {name: [turn.harmed for turn in turns] for name, turns in result.harmless.items()}


def conversation(api: str, *, stream: bool) -> Conversation:
    """A question, a call that failed, one that did not, and what came of it."""
    call = {"type": "function", "function": {"name": "find", "arguments": '{"what": "Süd"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "call_1", **call}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Error: timeout", "is_error": True},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_2", **call}]},
        {"role": "tool", "tool_call_id": "call_2", "content": "Found 12."},
        {"role": "assistant", "content": "There are 12."},
    ]
    tools = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}]
    return Conversation(f"{api}-{stream}", "any", "en", stream, messages, tools, api=api)


def test_a_conversation_passes_in_each_api() -> None:
    rows = [conversation(api, stream=stream) for api in APIS for stream in (False, True)]
    result = harmless.run("observe", rows, [])
    found = {name: [(turn.harmed, turn.lost, turn.status) for turn in turns] for name, turns in result.harmless.items()}
    assert {row.id: [(False, (), 200)] * 3 for row in rows} == found


def test_what_compression_takes_is_no_deletion_but_a_value_of_it_is_lost() -> None:
    prices = [f"Order {i} costs {i * 7 + 11}.30 euros and goes to Graz, as agreed with them by telephone." for i in range(60)]
    talk = [one for said in prices for one in ({"role": "user", "content": said}, {"role": "assistant", "content": "Noted."})]
    last = [{"role": "user", "content": "And the total?"}, {"role": "assistant", "content": f"{' + '.join(prices)}: a lot."}]
    row = Conversation("long", "any", "en", False, [*talk, *last])
    (*_, end) = harmless.run("default", [row], [], window=2200).harmless["long"]
    assert (False, (), True) == (end.blocked, end.deleted, bool(end.lost))
