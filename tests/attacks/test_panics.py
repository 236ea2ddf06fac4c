"""Exceptions that are no `Exception`, as panics of Rust code are, and schemas that bring them about."""

import json
from typing import Any

import pytest

from proxy.exchange import Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.testing import completion, reply
from tests.conftest import CHAT, Start


class Panic(BaseException):
    """As pyo3's."""


class Panicking(Stage):
    name = "panicking"

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        raise Panic


async def test_a_panic_of_a_stage_is_an_error_of_its_check(start: Start) -> None:
    async with start(policy="name: p\nstages: [panicking]\n", stages=(Panicking,)) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert (200, "error", "error") == (got.status, got.verdict, record["outcome"])
    assert "check_failed" == got.headers["x-groundwire-warnings"]


async def test_a_panic_elsewhere_is_an_internal_error_with_a_record(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start() as proxy:
        monkeypatch.setattr("proxy.server.completion.Completion._send", _panics)
        got = await proxy.post()
        record = await proxy.record(got)
    assert (500, "internal_error", 500) == (got.status, got.json["error"]["code"], record["status"])


def _panics(*_: object) -> Any:
    raise Panic


@pytest.mark.parametrize("depth", [10, 30, 60, 90, 120, 160, 180])
async def test_a_deep_schema_is_no_crash(start: Start, depth: int) -> None:
    schema: dict[str, Any] = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}}}}
    for _ in range(depth // 2):
        schema = {"type": "object", "properties": {"x": schema}}
    tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"x": {"x": {}}})}}
    said = completion(None)  # type: ignore[arg-type]
    said["choices"][0]["message"]["tool_calls"] = [call]
    async with start(reply(said), policy="name: p\ndelivery: hold\nstages: [schema: {on_violation: block}]\n") as proxy:
        got = await proxy.post({**CHAT, "tools": tools})
        record = await proxy.record(got)
    assert (200, 200) == (got.status, record["status"])
