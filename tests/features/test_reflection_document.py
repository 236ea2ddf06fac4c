"""What the document on failure reflection binds: fields, words, limits. Its behaviour is in reflection.feature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.policy.loading import load_policy
from proxy.ports.failures import SEVERITIES, SIGNAL_TYPES, STATUSES
from proxy.stages.reflection.stage import ReflectionOptions
from tests.conftest import Start

AGENT = Path(__file__).parents[2] / "policies" / "agent.yaml"
FIELDS = (
    "failure_id",
    "run_id",
    "step_id",
    "phase",
    "signal_type",
    "severity",
    "fingerprint",
    "attempted_action",
    "observed_outcome",
    "recommended_adjustment",
    "context_refs",
    "created_at",
    "status",
    "occurrence_count",
    "last_seen_step_id",
    "helpful_count",
    "harmful_count",
)
POLICY = "name: memory\ndelivery: tap\nstages: [reflection: {}]\n"
TOOL = {
    "type": "function",
    "function": {"name": "search_docs", "parameters": {"type": "object", "properties": {"limit": {"type": "integer"}}}},
}


def failing(times: int) -> list[dict[str, Any]]:
    """A search that times out again and again."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": "How many days of leave do I have?"}]
    for number in range(times):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "search_docs", "arguments": json.dumps({"limit": 50})}}
        talk.append({"role": "assistant", "content": None, "tool_calls": [call]})
        talk.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"Error: timed out after {30 + number} s"})
    return talk


async def test_a_record_has_every_field_and_structured_ones_are_no_text(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        await proxy.post(
            {"model": "gpt-4o", "messages": failing(1), "tools": [TOOL]}, x_groundwire_run_id="run-7", x_groundwire_step_id="3"
        )
        (record,) = (await proxy.get("/groundwire/v1/failures?run_id=run-7")).json["data"]
    assert [] == [name for name in FIELDS if name not in record]
    assert ("run-7", "3", "tool_error", "active", 1) == tuple(
        record[n] for n in ("run_id", "step_id", "signal_type", "status", "occurrence_count")
    )
    assert {"type": "cap_output", "argument": "limit", "max": 10} == record["recommended_adjustment"]
    assert [dict, dict] == [type(record[name]) for name in ("attempted_action", "observed_outcome")]
    assert {"tool_call", "message"} == {ref["kind"] for ref in record["context_refs"]}


async def test_the_same_failure_at_a_later_step_counts_up_under_one_fingerprint(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        for times in (1, 2):
            body = {"model": "gpt-4o", "messages": failing(times), "tools": [TOOL]}
            await proxy.post(body, x_groundwire_run_id="run-7", x_groundwire_step_id=str(times))
        (record,) = (await proxy.get("/groundwire/v1/failures?run_id=run-7")).json["data"]
    assert (2, "1", "2") == (record["occurrence_count"], record["step_id"], record["last_seen_step_id"])


def test_the_words_of_a_record_are_the_documents() -> None:
    assert ("low", "medium", "high", "critical") == SEVERITIES
    assert ("active", "resolved", "superseded") == STATUSES
    wanted = {"tool_error", "retrieval_failure", "schema_violation", "loop", "human_correction", "budget_pressure"}
    assert wanted <= set(SIGNAL_TYPES)


def test_the_defaults_are_those_of_the_first_release() -> None:
    """Five records at most, of the run alone; the third repeat escalates where the policy wants it, as the shipped one for agents does."""
    options = ReflectionOptions()
    assert (5, "run", None) == (options.top_k, options.scope, options.escalate_after)
    (shipped,) = [spec.options for spec in load_policy(AGENT).stages if spec.stage.name == "reflection"]
    assert isinstance(shipped, ReflectionOptions)
    assert (5, "run", 3) == (shipped.top_k, shipped.scope, shipped.escalate_after)


@pytest.mark.parametrize(
    ("result", "times", "params", "expected"),
    [
        ("Error: permission denied", 2, {}, (200, "", True)),
        ("Error: permission denied", 3, {}, (200, "human_asked", False)),
        ("Error: permission denied", 3, {"tool_choice": "required"}, (400, "system_error", False)),
        ("Error: the cursor is no longer valid", 3, {}, (400, "system_error", False)),
    ],
)
async def test_the_shipped_policy_for_agents_stops_at_the_third_time(
    start: Start, result: str, times: int, params: dict[str, Any], expected: tuple[int, str, bool]
) -> None:
    talk = failing(times)
    for message in talk:
        if message["role"] == "tool":
            message["content"] = result
    async with start(policy=AGENT.read_text("utf-8")) as proxy:
        answer = await proxy.post({"model": "gpt-4o", "messages": talk, "tools": [TOOL], **params})
        stops = [code for code in answer.headers.get("x-groundwire-warnings", "").split(",") if code in ("human_asked", "system_error")]
        assert expected == (answer.status, "".join(stops), bool(proxy.upstream.calls))
