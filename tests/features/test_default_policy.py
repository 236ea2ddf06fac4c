"""What the policy `default` shows a client that changed its base URL and nothing else; its prompts and answers stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.testing import completion, reply
from tests.conftest import Answer, Running, Start

POLICY = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text("utf-8")
WITH_FACTS = POLICY.replace("  # - knowledge: {folder: knowledge}", "  - knowledge: {folder: knowledge, timeout_ms: 60000}")
LOOKUP = {
    "type": "function",
    "function": {"name": "get_order", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
}


def talk(messages: int, words: int) -> list[dict[str, Any]]:
    """A chat of so many messages, the last one the user's."""
    roles = ("user", "assistant") if messages % 2 else ("assistant", "user")
    return [{"role": roles[i % 2], "content": f"Day {i}: we walked along the river" + " and on" * words} for i in range(messages)]


def looked_up(*calls: tuple[str, str]) -> list[dict[str, Any]]:
    """An agent's run that looks up orders, each with its result."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "Where is my order?"}]
    for number, (arguments, result) in enumerate(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "get_order", "arguments": arguments}}
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return said


async def send(proxy: Running, messages: list[dict[str, Any]], **more: Any) -> Answer:
    """One request; the model gets it as it was sent."""
    answer = await proxy.post({"model": "gpt-4o", "messages": messages, **more}, x_groundwire_run_id="run")
    assert 200 == answer.status
    assert messages == proxy.upstream.calls[-1].json["messages"]
    return answer


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("messages", "words", "severity"), [(51, 40, "HIGH"), (25, 2, "MEDIUM"), (7, 300, "HIGH"), (19, 2, None), (3, 2, None)]
)
async def test_a_history_that_distracts_is_told_and_no_warning(
    start: Start, messages: int, words: int, severity: str | None, streams: bool
) -> None:
    async with start(reply(completion("By the river.")), policy=POLICY) as proxy:
        answer = await send(proxy, talk(messages, words), stream=streams)
        record = await proxy.record(answer)
        alerts = (await proxy.get("/groundwire/v1/metrics")).json["counters"].get("context.distraction_count", 0)
        page = (await proxy.get("/dashboard")).body.decode()
    told = answer.headers.get("x-groundwire-distraction", "")
    assert (severity or "", "DISTRACTION" in answer.headers.get("x-groundwire-warnings", "")) == (told.partition(";")[0], False)
    noted = [v["detail"]["severity"] for v in record["detail"]["verdicts"] if v.get("code") == "DISTRACTION"]
    assert ([severity] if severity else [], int(severity is not None)) == (noted, alerts)
    assert (f";messages={messages};" in told) == (severity is not None)
    assert "Long conversations" in page


async def test_what_a_tool_failed_at_is_noted_and_resolved_and_the_model_is_not_told(start: Start) -> None:
    failed, mended = ('{"id": "A7"}', '{"status": 404, "error": "not found"}'), ('{"id": "A-7"}', '{"id": "A-7", "state": "sent"}')
    async with start(reply(completion("It was sent.")), policy=POLICY) as proxy:
        found = []
        for calls in ((failed,), (failed, mended)):
            answer = await send(proxy, looked_up(*calls), tools=[LOOKUP])
            await proxy.record(answer)
            await proxy.app.learning_tasks.stop(5.0)
            (failure,) = (await proxy.get("/groundwire/v1/failures?run_id=run")).json["data"]
            found.append((failure["signal_type"], failure["code"], failure["subject"], failure["status"]))
            assert ("0", "") == (answer.headers["x-groundwire-failures"], answer.headers.get("x-groundwire-warnings", ""))
    assert [("tool_error", "not_found", "get_order", status) for status in ("active", "resolved")] == found


async def test_the_same_failure_a_fifth_time_stops_nothing(start: Start) -> None:
    async with start(reply(completion("I may not.")), policy=POLICY) as proxy:
        answer = await send(proxy, looked_up(*[('{"id": "A7"}', "Error: permission denied")] * 5), tools=[LOOKUP])
        assert "I may not." == answer.json["choices"][0]["message"]["content"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "warnings"),
    [
        ("The Eiffel Tower is in Berlin.", "context_suspicious"),
        ("Der Eiffelturm ist 124 Meter hoch.", "context_suspicious"),
        ("The Eiffel Tower is in Paris.", ""),
        ("It has a nice view, and I would go in the evening.", ""),
    ],
)
async def test_with_facts_an_earlier_answer_is_checked(start: Start, tmp_path: Path, said: str, warnings: str) -> None:
    (tmp_path / "knowledge").mkdir()
    facts = ["The Eiffel Tower is in Paris, France.", "Der Eiffelturm ist 330 Meter hoch."]
    (tmp_path / "knowledge" / "facts.md").write_text("\n\n".join(facts), encoding="utf-8")
    messages = [
        {"role": "user", "content": "Tell me of the Eiffel Tower."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "Thank you. And what else is there to do in the evening?"},
    ]
    async with start(reply(completion("Take a walk.")), policy=WITH_FACTS.replace("annotate}", "annotate, timeout_ms: 60000}")) as proxy:
        answer = await send(proxy, messages)
        record = await proxy.record(answer)
    codes = [v["code"] for v in record["detail"]["verdicts"] if v["stage"] == "poisoning" and v.get("code")]
    assert warnings.split() == codes


async def test_without_facts_an_earlier_answer_is_no_matter_of_the_stage(start: Start) -> None:
    async with start(reply(completion("Yes.")), policy=POLICY) as proxy:
        await send(proxy, talk(9, 2))
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert 0 == counters.get("poisoning.checked_count", 0)
