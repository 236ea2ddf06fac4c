"""What a store keeps of a conversation's words: none by default, some where something was found, all where bodies are."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proxy.config.settings import load_settings
from proxy.errors import ConfigError
from proxy.store.words import without_words
from proxy.testing import ScriptedVerifiers, completion, reply, stream, streamed
from tests.apis import APIS, Api
from tests.claims import judged_by_words
from tests.conftest import Start

EMAIL, IBAN, CARD, PHONE = "lena.fuchs@kunde.example.com", "DE89370400440532013000", "4111 1111 1111 1111", "+49 171 5550123"
WORD = "Marigold"
PRIVATE = (EMAIL, IBAN, CARD, PHONE, WORD)
POLICIES = Path(__file__).parents[2] / "policies"
SAID = f"{WORD} wrote from {EMAIL}, pays from {IBAN} or by card {CARD}, and answers at {PHONE}."
WRONG = f"The refund of {WORD} went to {EMAIL} on 3 May 1999, and {IBAN} got 7,120 euros of card {CARD}; call {PHONE}."
TOOLS = [
    {"type": "function", "function": {"name": "customer", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}}
]
CALLS = [{"id": "call_1", "type": "function", "function": {"name": "customer", "arguments": json.dumps({"name": f"{WORD} {EMAIL}"})}}]
BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "tools": TOOLS,
    "messages": [
        {"role": "user", "content": f"Who is {WORD}? {SAID}"},
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps({"error": f"not found: {SAID}"})},
        {"role": "user", "content": f"That is wrong. What do the papers say of {WORD}, {IBAN}?"},
    ],
    "groundwire": {"context": [{"content": SAID, "source": f"letter of {WORD}, {EMAIL}"}]},
}


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Api:
    """Both sides of the proxy speak it."""
    return APIS[request.param]


def every_column(folder: Path) -> dict[str, str]:
    """All of the database by table and column, and what its files have besides."""
    found: dict[str, str] = {}
    with closing(sqlite3.connect(folder / "store.db")) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = database.execute(f'SELECT * FROM "{table}"')
            names = [column[0] for column in rows.description]
            for row in rows:
                for name, value in zip(names, row, strict=True):
                    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                    found[f"{table}.{name}"] = found.get(f"{table}.{name}", "") + text + "\n"
    for path in folder.glob("store.db*"):
        found[path.name] = path.read_bytes().decode("utf-8", "replace")
    return found


async def kept(
    start: Start, folder: Path, policy: str, streams: bool, api: Api = APIS["chat"], **options: Any
) -> tuple[dict[str, str], Any]:
    """The store after one exchange, and its record."""
    text = f"{SAID} {WRONG}"
    said = stream(streamed([text])) if streams else reply(completion(text))
    verifiers = ScriptedVerifiers(judged_by_words)
    policy = (POLICIES / f"{policy}.yaml").read_text(encoding="utf-8")
    async with start(said, policy=policy, verifiers=verifiers, **options) as proxy:
        body = api.request({**BODY, "stream": streams})
        if api.name == "responses":
            body["store"] = False  # else the conversation is kept, for a later request that names the response
        got = await proxy.post(body, api.path, x_groundwire_run_id="r1")
        assert 200 == got.status, got.body
        record = await proxy.record(got)
    return every_column(folder), record


def places(found: dict[str, str], words: tuple[str, ...] = PRIVATE) -> list[tuple[str, str]]:
    """Where these stand."""
    return [(place, word) for place, text in found.items() for word in words if word in text]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("policy", ["default", "rag", "agent"])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"], indirect=True)
async def test_no_word_of_a_conversation_is_in_the_store_or_the_log(
    start: Start, tmp_path: Path, api: Api, policy: str, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "proxy")
    caplog.set_level(logging.INFO, "groundwire")
    found, record = await kept(start, tmp_path, policy, streams, api, bodies=False)
    assert [] == places(found)
    assert [] == [word for word in PRIVATE if word in caplog.text]
    assert not record["detail"]["texts"]
    assert record["detail"]["verdicts"]


async def test_labels_places_and_counts_stay(start: Start, tmp_path: Path) -> None:
    _, record = await kept(start, tmp_path, "default", False, bodies=False)
    claims = next(one for one in record["detail"]["verdicts"] if one["stage"] == "claims")["detail"]["claims"]
    assert {"supported", "contradicted", "unsupported", "unsure"} & {one["label"] for one in claims}
    assert all(one["text"] == "" and one["span"][1] > one["span"][0] for one in claims)
    assert record["detail"]["facts"]["claims"]


async def test_all_keeps_them_where_it_is_asked_for(start: Start, tmp_path: Path) -> None:
    found, record = await kept(start, tmp_path, "default", False, bodies=False, store_options=", texts: all")
    assert WORD in found["records.detail"]
    assert [] == places(found, (EMAIL, IBAN, CARD, PHONE))
    assert "texts" not in record["detail"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("policy", ["default", "rag", "agent"])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"], indirect=True)
async def test_personal_data_is_masked_in_what_is_kept(start: Start, tmp_path: Path, api: Api, policy: str, streams: bool) -> None:
    found, record = await kept(start, tmp_path, policy, streams, api)
    assert WORD in record["request_body"]
    assert [] == places(found, (EMAIL, IBAN, CARD, PHONE))


@pytest.mark.parametrize(("answer", "kept_words"), [(SAID, False), (WRONG, True)])
async def test_flagged_keeps_only_what_a_person_has_to_look_at(start: Start, tmp_path: Path, answer: str, kept_words: bool) -> None:
    policy, verifiers = "name: p\ndelivery: hold\nstages: [claims: {embed: false}]\n", ScriptedVerifiers(judged_by_words)
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Tell me."}], "groundwire": {"context": [{"content": SAID}]}}
    async with start(reply(completion(answer)), policy=policy, verifiers=verifiers, store_options=", texts: flagged") as proxy:
        record = await proxy.record(await proxy.post(body))
    assert kept_words == (WORD in json.dumps(record))
    assert kept_words == (places(every_column(tmp_path), (WORD,)) != [])


def test_bodies_without_texts_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "store: {bodies: true, texts: none}\nupstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:1/v1'}}\nroutes: [{prefix: '', upstream: main, policy: p.yaml}]\n",
        encoding="utf-8",
    )
    (tmp_path / "p.yaml").write_text("name: p\ndelivery: tap\nstages: []\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"store\.texts"):
        load_settings(tmp_path / "config.yaml", {})


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"label": "unsure", "text": "Anna owes 5"}, {"label": "unsure", "text": ""}),
        ({"reason": "“Anna” is not there", "kind": "passage"}, {"reason": "", "kind": "passage"}),
        ({"type": EMAIL, "code": IBAN, "span": [3, 9]}, {"type": "", "code": "", "span": [3, 9]}),
        ({EMAIL: 1, "counts": {"unsure": 2}}, {"1": 1, "counts": {"unsure": 2}}),
        ({"tools": ["read_file", "a sentence of words"], "id": "qr_" + "0a" * 16}, {"tools": ["read_file", ""], "id": "qr_" + "0a" * 16}),
        ({"what": {"label": "Anna likes it"}}, {"what": {"label": ""}}),
    ],
)
def test_only_codes_numbers_and_places_are_left(given: Any, left: Any) -> None:
    assert left == without_words(given)
