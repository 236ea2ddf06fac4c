import pytest
from starlette.requests import HTTPConnection

from proxy.admin.access import AdminAuth, check_admin_key
from proxy.errors import InvalidApiKey, PolicyNotAllowed
from proxy.ledger import Ledger
from tests.conftest import Start


def connection(peer: str | None, **headers: str) -> HTTPConnection:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "headers": raw, "client": (peer, 1234) if peer else None})


@pytest.mark.parametrize(("peer", "host"), [("127.0.0.1", "localhost:4000"), ("::1", "[::1]:4000"), ("127.0.0.1", "127.0.0.1")])
def test_without_a_key_its_own_machine_may(peer: str, host: str) -> None:
    check_admin_key(connection(peer, host=host), "")


@pytest.mark.parametrize("peer", ["10.0.0.5", "2001:db8::1", None])
def test_without_a_key_another_machine_may_not_whatever_name_it_calls(peer: str | None) -> None:
    with pytest.raises(PolicyNotAllowed, match=r"server\.admin_key"):
        check_admin_key(connection(peer, host="localhost"), "")


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"])
def test_without_a_key_nobody_comes_through_a_proxy_on_the_same_machine(header: str) -> None:
    with pytest.raises(PolicyNotAllowed, match="proxy"):
        check_admin_key(connection("127.0.0.1", **{"host": "localhost", header: "127.0.0.1"}), "")


def test_with_the_key_any_machine_may() -> None:
    check_admin_key(connection("10.0.0.5", host="proxy.example", authorization="Bearer s3cret"), "s3cret")


@pytest.mark.parametrize("authorization", ["", "s3cret", "Basic s3cret", "Bearer s3creT"])
def test_without_the_right_key_nobody_may(authorization: str) -> None:
    with pytest.raises(InvalidApiKey):
        check_admin_key(connection("127.0.0.1", host="localhost", authorization=authorization), "s3cret")


@pytest.mark.parametrize(("site", "told"), [("same-origin", True), ("cross-site", False)])
def test_a_decision_behind_a_proxy_that_changes_the_host_is_refused_with_the_reason(site: str, told: bool) -> None:
    headers = {"host": "10.0.0.5:4000", "origin": "https://groundwire.example", "sec-fetch-site": site}
    with pytest.raises(PolicyNotAllowed) as refused:
        AdminAuth("s3cret", Ledger()).check_origin(connection("10.0.0.5", **headers))
    assert told == ("reverse proxy" in refused.value.message)


@pytest.mark.parametrize(
    "headers", [{"origin": "http://127.0.0.1:9999"}, {"origin": "http://localhost"}, {"sec_fetch_site": "same-site"}], ids=str
)
async def test_without_a_key_a_page_of_another_server_on_this_machine_decides_nothing(headers: dict[str, str], start: Start) -> None:
    async with start() as proxy:
        assert 404 == (await proxy.post(None, "/groundwire/v1/keys/ann/revoke")).status
        assert 404 == (await proxy.post(None, "/groundwire/v1/keys/ann/revoke", origin=proxy.url)).status
        assert 403 == (await proxy.post(None, "/groundwire/v1/keys/ann/revoke", **headers)).status


@pytest.mark.parametrize("path", ["records", "keys", "quarantine", "report", "records/none", "scratchpad/none"])
async def test_nobody_on_the_way_keeps_an_answer_of_the_operators_api(path: str, start: Start) -> None:
    async with start() as proxy:
        headers = (await proxy.get(f"/groundwire/v1/{path}")).headers
    assert ("no-store", "nosniff") == (headers["cache-control"], headers["x-content-type-options"])
