"""Keys in the store: made, listed, rotated and ended by the command, the operator's API and the dashboard; known to servers soon after."""

import asyncio
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.config.access import Clients
from proxy.limits import keyring
from proxy.limits.keys import KeysAndTeams
from proxy.testing import completion, reply
from tests.admin.pages import Browser, Page
from tests.conftest import CHAT, Running, Start

STORED = ", keys: true"
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers look every 20 ms."""
    monkeypatch.setattr(keyring, "LOOK_S", 0.02)


async def known(proxy: Running, key: str, status: int = 200) -> Any:
    """The answer of a server that has followed the store."""
    async with asyncio.timeout(5):
        while (answer := await proxy.post(authorization=f"Bearer {key}")).status != status:
            await asyncio.sleep(0.01)
    return answer


async def call(proxy: Running, path: str, body: Any = None) -> Any:
    answer = await (proxy.get(f"/groundwire/v1{path}") if body is None else proxy.post(body, f"/groundwire/v1{path}"))
    assert answer.status == 200, answer.body
    return answer.json


async def test_a_key_is_made_used_rotated_and_revoked(start: Start) -> None:
    async with start(store_options=STORED) as proxy:
        assert 401 == (await proxy.post()).status
        ann = (await call(proxy, "/keys", {"name": "ann", "team": "red", "limits": {"rpm": 100}}))["key"]
        await known(proxy, ann)
        again = (await call(proxy, "/keys/ann/rotate", {"overlap_s": 60}))["key"]
        await known(proxy, again)
        await known(proxy, ann)  # the overlap
        last = (await call(proxy, "/keys/ann/rotate", {}))["key"]
        await known(proxy, last)
        assert [401, 401] == [(await proxy.post(authorization=f"Bearer {key}")).status for key in (ann, again)]
        assert "revoked" == (await call(proxy, "/keys/ann/revoke", {}))["status"]
        refused = await known(proxy, last, 401)
        assert "invalid_api_key" == refused.json["error"]["code"]
        taken = await proxy.post({"name": "ann"}, "/groundwire/v1/keys")
        assert (409, "conflict") == (taken.status, taken.json["error"]["code"])


async def test_limits_change_while_the_server_runs_and_are_listed_with_what_is_taken(start: Start) -> None:
    async with start(reply(completion(usage=USAGE)), store_options=STORED) as proxy:
        ann = (await call(proxy, "/keys", {"name": "ann", "team": "red", "limits": {"rpm": 2}}))["key"]
        await known(proxy, ann)
        await known(proxy, ann)
        await known(proxy, ann, 429)
        await call(proxy, "/keys/ann/limits", {"limits": {"rpm": 50, "usd_per_day": 5}})
        await known(proxy, ann)
        await call(proxy, "/teams/red/limits", {"limits": {"rpm": 1}})
        await known(proxy, ann, 429)
        assert [{"object": "team", "name": "red", "limits": {"rpm": 1}}] == (await call(proxy, "/teams"))["data"]
        assert proxy.app.admissions is not None
        async with asyncio.timeout(5):
            while (await call(proxy, "/keys"))["data"][0]["spent"]["requests"] < 3:
                await proxy.app.admissions.spending.flush()
        (listed,) = (await call(proxy, "/keys"))["data"]
        spending = (await call(proxy, "/spending?by=team,model"))["data"]
    assert ("ann", "red", "active", {"rpm": 50, "usd_per_day": 5}) == tuple(listed[name] for name in ("name", "team", "status", "limits"))
    assert 3 <= listed["taken"]["rpm"] <= 50
    assert "sha256" not in str(listed)
    cost = (1000 * 2.5 + 100 * 10) / 1e6
    answered = spending[0]
    assert ("red", "gpt-4o") == (answered["team"], answered["model"])
    assert answered["usd"] == pytest.approx(cost * answered["requests"])
    assert answered["refused"] >= 2


async def test_a_new_key_is_known_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "LOOK_S", 3600)
    async with start(store_options=STORED) as proxy:
        ann = (await call(proxy, "/keys", {"name": "ann"}))["key"]
        answers = await asyncio.gather(*(proxy.post(authorization=f"Bearer {key}") for key in (ann, ann, "gw-wrong", "gw-other")))
    assert [200, 200, 401, 401] == [answer.status for answer in answers]


async def test_a_flood_of_wrong_keys_does_not_keep_the_store_busy(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "LOOK_S", 3600)
    async with start(store_options=STORED) as proxy:
        assert proxy.app.admissions is not None
        ring = proxy.app.admissions.ring
        before, began = ring._looks_begun, time.monotonic()
        while (took_s := time.monotonic() - began) < 0.5:
            assert [False] * 20 == await asyncio.gather(*(ring.look_before_refusal() for _ in range(20)))
        looks = ring._looks_begun - before
    assert 2 <= looks <= took_s / keyring._APART_S + 2


async def test_a_wrong_key_is_refused_in_time_where_the_store_hangs(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "LOOK_S", 3600)
    monkeypatch.setattr(keyring, "_PATIENCE_S", 0.05)
    async with start(store_options=STORED) as proxy:
        assert proxy.app.admissions is not None
        monkeypatch.setattr(proxy.app.admissions.ring._source, "changes", asyncio.Event().wait)
        async with asyncio.timeout(5):
            answer = await proxy.post(authorization="Bearer gw-wrong")
    assert 401 == answer.status


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": "a b"}, "name"),
        ({"name": "ann", "limits": {"rpm": 0}}, "limits.rpm"),
        ({"name": "ann", "limits": {"rmp": 1}}, "rmp"),
        ({"name": "ann", "expires": "soon"}, "expires"),
        ({"name": "ann", "routes": ["/nowhere"]}, "routes"),
    ],
)
async def test_a_key_that_cannot_be_is_refused(body: Any, param: str, start: Start) -> None:
    async with start(store_options=STORED) as proxy:
        answer = await proxy.post(body, "/groundwire/v1/keys")
    assert (400, param) == (answer.status, answer.json["error"]["param"])


async def test_without_the_setting_no_key_is_made_that_nobody_would_look_for(start: Start) -> None:
    async with start() as proxy:
        answer = await proxy.post({"name": "ann"}, "/groundwire/v1/keys")
    assert 409 == answer.status
    assert "store: {keys: true}" in answer.json["error"]["message"]


async def test_rows_that_cannot_be_read_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    class Later:
        changed, problem = (1, 1), True

        async def changes(self) -> tuple[int, int]:
            return self.changed

        async def all(self) -> KeysAndTeams:
            if self.problem:
                raise ValueError("of a later release")
            return KeysAndTeams()

    source = Later()
    ring = keyring.KeyRing(Clients((), stored=True), {}, source)  # type: ignore[arg-type]
    for source.changed in ((1, 1), (1, 1), (1, 2), (1, 2)):
        assert not await ring.look_before_refusal()
    assert 2 == sum("keys could not be read" in one for one in caplog.messages)
    source.problem = False
    assert await ring.look_before_refusal()


async def test_the_text_of_a_key_is_neither_stored_nor_logged(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(0):
        async with start(store_options=STORED) as proxy:
            ann = (await call(proxy, "/keys", {"name": "ann", "limits": {"rpm": 2}}))["key"]
            for _ in range(3):
                await proxy.post({**CHAT, "user": "x"}, authorization=f"Bearer {ann}")
            await known(proxy, ann, 429)
            await call(proxy, "/keys/ann/revoke", {})
            await known(proxy, ann, 401)
            await proxy.app.records_writer.flush()
            shown = str(await call(proxy, "/keys"))
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert sha256(ann.encode()).hexdigest().encode() in stored
    assert ann.encode() not in stored
    assert ann not in caplog.text + shown


async def test_a_store_that_is_away_at_the_start_refuses_nobody_for_good(start: Start) -> None:
    async with start(store_options=STORED) as proxy:
        clients = proxy.app._services.clients
        clients._away = True
        answer = await proxy.post(authorization="Bearer gw-unknown")
    assert (503, "1") == (answer.status, answer.headers["retry-after"])


# ---- the command ----


def config_of(folder: Path, options: str = STORED) -> str:
    (folder / "policy.yaml").write_text("name: empty\ndelivery: tap\nstages: []\n")
    path = folder / "config.yaml"
    path.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'{options}}}\n"
        "upstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:9/v1'}}\n"
        "routes: [{upstream: main, policy: policy.yaml}]\n"
    )
    return str(path)


def test_the_command_makes_lists_rotates_and_ends_keys(tmp_path: Path, capsys: Captured) -> None:
    config = ["--config", config_of(tmp_path)]
    assert 0 == main(["keys", "add", "ann", "--team", "red", "--rpm", "60", "--usd-per-day", "2.5", "--expires", "30d", *config])
    made = capsys.readouterr()
    assert re.fullmatch(r"gw-[\w-]{43}\n", made.out)
    assert made.out.strip() not in made.err
    assert "it works at once" in made.err
    assert 0 == main(["keys", "team", "red", "--tpm", "1000", *config])
    assert 0 == main(["keys", "team", "rde", "--tpm", "1000", *config])
    assert 0 == main(["keys", "team", "rde", *config])
    assert 0 == main(["keys", "rotate", "ann", "--overlap", "1h", *config])
    assert made.out != capsys.readouterr().out
    assert 0 == main(["keys", "limit", "ann", "--concurrent", "3", *config])
    assert 0 == main(["keys", "list", *config])
    assert ["ann\tactive\tred\tconcurrent=3\t0 requests, 0.00 USD", "red\tteam\t-\ttpm=1000"] == capsys.readouterr().out.splitlines()
    assert 0 == main(["keys", "revoke", "ann", *config])
    assert 2 == main(["keys", "revoke", "ann", *config])
    assert "no key 'ann'" in capsys.readouterr().err
    assert 0 == main(["keys", "list", "--json", *config])
    assert '"status": "revoked"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--rpm", "0"], "command line: rpm: expected `int` >= 1"),
        (["--route", "/nowhere"], "/nowhere"),
        (["--expires", "soon"], "soon"),
        (["--expires", "2020-01-01"], "command line: --expires: 2020-01-01 is over: the key would work nowhere"),
    ],
)
def test_the_command_refuses_what_cannot_be(wrong: list[str], told: str, tmp_path: Path, capsys: Captured) -> None:
    assert 2 == main(["keys", "add", "ann", *wrong, "--config", config_of(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_the_command_refuses_where_no_server_would_look(tmp_path: Path, capsys: Captured) -> None:
    assert 2 == main(["keys", "add", "ann", "--config", config_of(tmp_path, "")])
    assert "store.keys" in capsys.readouterr().err


# ---- the dashboard ----


async def test_the_page_makes_a_key_shows_it_once_and_ends_it(start: Start) -> None:
    async with start(reply(completion(usage=USAGE)), store_options=STORED) as proxy, Browser(proxy) as browser:
        page = await browser.page("/dashboard/keys")
        assert "No key yet." in page.text
        fields = {"csrf": page.csrf, "decision": "add", "name": "ann", "team": "red", "models": "gpt-4o*, o3", "rpm": "7", "expires": ""}
        made = Page((await browser.post("/dashboard/keys", fields)).body.decode())
        ann = re.search(r"gw-[\w-]{43}", made.text)
        assert ann
        await known(proxy, ann[0])
        assert proxy.app.admissions is not None
        async with asyncio.timeout(5):
            while (
                "1 of 7 requests a minute" not in (page := await browser.page("/dashboard/keys?by=model")).text or "gpt-4o" not in page.text
            ):
                await proxy.app.admissions.spending.flush()
        assert ann[0] not in page.html
        refused = await browser.post("/dashboard/keys", {**fields, "rpm": "none"})
        assert (400, True) == (refused.status, "the form is refused" in refused.body.decode())
        forged = await browser.post("/dashboard/keys", {**fields, "csrf": "wrong", "name": "eve"})
        assert 403 == forged.status
        assert 303 == (await browser.post("/dashboard/keys", {"csrf": page.csrf, "decision": "team", "name": "red"})).status
        assert "redno limits" in (await browser.page("/dashboard/keys")).text
        assert 303 == (await browser.post("/dashboard/keys", {"csrf": page.csrf, "decision": "revoke", "name": "ann"})).status
        await known(proxy, ann[0], 401)
        assert "ann (revoked)" in (await browser.page("/dashboard/keys?done=revoke")).text


@pytest.mark.parametrize("since", ["foo", "2026-13-45", "2026-12", ""])
async def test_spending_since_what_is_no_day_is_refused(since: str, start: Start) -> None:
    async with start(store_options=STORED) as proxy:
        refused = await proxy.get(f"/groundwire/v1/spending?since={since}")
    assert (400, "since") == (refused.status, refused.json["error"]["param"])
