"""Who is told of an exchange's verdict: the client whose it was, and the operator; everybody else finds nothing."""

import hashlib
import time

import pytest

from proxy.server.handler import new_id
from tests.admin.test_verdicts import ALICE, BOB, PATH, STREAM, Patient, asked, policy, said
from tests.claims import PARIS
from tests.conftest import Start


def keys(*names: str) -> str:
    listed = (f"{{name: {name}, sha256: {hashlib.sha256(f'{name}-key'.encode()).hexdigest()}}}" for name in names)
    return f"keys: [{', '.join(listed)}]\n"


async def test_another_clients_is_not_found(start: Start) -> None:
    async with start(said(PARIS), policy=policy("tap")) as proxy:
        got = await proxy.post(STREAM, **ALICE)
        statuses = [(await asked(proxy, got, **headers)).status for headers in (ALICE, BOB, {})]
    assert [200, 404, 404] == statuses


async def test_another_clients_is_not_found_while_it_runs_either(start: Start) -> None:
    verifiers = Patient()
    async with start(said(PARIS), policy=policy("tap"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM, **ALICE)
        found = [(await asked(proxy, got, 0, **headers)) for headers in (ALICE, BOB, {})]
        verifiers.go.set()
    assert [202, 404, 404] == [one.status for one in found]
    assert found[1].json["error"] == found[2].json["error"]


async def test_a_key_is_the_same_clients_in_either_header(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post(**ALICE)
        other = await asked(proxy, got, x_api_key="alice-key")
        wrong = await asked(proxy, got, x_api_key="bob-key")
    assert [200, 404] == [other.status, wrong.status]


async def test_nobodys_is_everybodys_on_this_machine(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post()
        here = await asked(proxy, got)
        keyed = await asked(proxy, got, **ALICE)
        elsewhere = await asked(proxy, got, x_forwarded_for="203.0.113.7")
        page = await asked(proxy, got, origin="https://evil.example")
    assert [200, 404, 404, 404] == [one.status for one in (here, keyed, elsewhere, page)]


async def test_with_client_keys_it_is_the_keys(start: Start) -> None:
    async with start(config=keys("alice", "bob")) as proxy:
        got = await proxy.post(**ALICE)
        found = [await asked(proxy, got, **headers) for headers in (ALICE, BOB, {}, {"authorization": "Bearer mallory-key"})]
        elsewhere = await asked(proxy, got, **ALICE, x_forwarded_for="203.0.113.7")
    assert [200, 404, 401, 401] == [one.status for one in found]
    assert "invalid_api_key" == found[2].json["error"]["code"]
    assert 200 == elsewhere.status


async def test_a_key_for_some_routes_sees_its_own(start: Start) -> None:
    digest = hashlib.sha256(b"alice-key").hexdigest()
    config = f"keys: [{{name: alice, sha256: {digest}, routes: ['']}}]\n"
    async with start(config=config) as proxy:
        got = await asked(proxy, await proxy.post(**ALICE), **ALICE)
    assert 200 == got.status


async def test_the_admin_key_sees_every_clients(start: Start) -> None:
    async with start(config="server: {admin_key: boss}\n" + keys("alice", "bob")) as proxy:
        got = await proxy.post(**ALICE)
        found = [await asked(proxy, got, authorization=f"Bearer {key}") for key in ("boss", "alice-key", "bob-key", "bos")]
        operators = await proxy.get("/groundwire/v1/records", **ALICE)
    assert [200, 200, 404, 401] == [one.status for one in found]
    assert 401 == operators.status


@pytest.mark.parametrize("name", ["gw_nope", "x", "%20", "gw_" + "0" * 28])
async def test_an_id_that_nobody_has_is_not_found(start: Start, name: str) -> None:
    async with start() as proxy:
        got = await proxy.get(f"{PATH}{name}?wait_ms=30000")
    assert (404, "not_found") == (got.status, got.json["error"]["code"])


async def test_one_that_no_other_process_can_have_is_not_waited_for(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.get(f"{PATH}{new_id(time.time())}?wait_ms=30000")
    assert 404 == got.status
