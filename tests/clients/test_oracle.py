"""No client shows its user a text that the check did not read: shapes of answers under closed policies, all pairs of APIs.

Also the other way round: of a right answer every client shows under the shipped `strict` what it shows without the proxy. A minute's worth
of examples, the same every time; ``python -m tests.fuzz --target clients`` goes on for as long as it is told to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from proxy.config.settings import Api
from tests.clients.oracle import right
from tests.clients.oracle.generate import make, right_shape
from tests.clients.oracle.house import House
from tests.clients.oracle.judge import said, spaced, unread
from tests.clients.oracle.shape import APIS, decoded
from tests.fuzz import corpus
from tests.fuzz.clients import FOLDER

pytestmark = pytest.mark.clients
PAIRS = [(client, server) for client in APIS for server in APIS]
EXAMPLES = 24
"""Of each pair."""
KINDS = tuple(dict.fromkeys(right.KINDS))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("oracle"), strict=True) as running:
        yield running


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_no_client_shows_what_no_check_read(house: House, client: Api, server: Api) -> None:
    delivered = 0
    for number in range(EXAMPLES):
        shape = make(random.Random(f"{client} {server} {number}"), client, server)
        seen = house.see(shape)
        assert [] == [str(one) for one in unread(seen)], f"{' '.join(shape.changes)}:\n{shape.body.decode('utf-8', 'replace')}"
        delivered += any(said(seen))
    assert delivered > EXAMPLES / 6, "hardly any shape was delivered: the oracle saw nothing"


@pytest.mark.parametrize(("client", "server"), PAIRS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_of_a_right_answer_every_client_shows_the_same_under_strict(house: House, client: Api, server: Api, streamed: bool) -> None:
    for kind in (*KINDS, *(right.OWN_KINDS if client == server else ())):
        shape, made = right_shape(client, server, kind, streamed=streamed)
        seen = house.see(shape, "strict")
        texts = {(name, place): text for name, place, text in said(seen)}
        assert (200, True) == (seen.status, bool(texts)), kind
        if client == server:
            direct = house.see_directly(shape)
            assert {(name, place): text for name, place, text in said(direct)} == texts, kind
            assert {name: one["error"] for name, one in direct.shown.items()} == {name: one["error"] for name, one in seen.shown.items()}
        else:
            expected = made.text or made.refusal
            assert {expected} == {spaced(text) for text in texts.values()}, kind  # two parts may become two paragraphs


@pytest.mark.parametrize("client", APIS)
def test_all_that_clients_show_of_right_answers_is_read(house: House, client: Api) -> None:
    for kind in (*KINDS, *right.OWN_KINDS):
        for streamed, delivery in ((False, "hold"), (True, "hold"), (True, "gate")):
            shape, _ = right_shape(client, client, kind, streamed=streamed, delivery=delivery)
            seen = house.see(shape)
            assert any(said(seen)), kind
            assert [] == [str(one) for one in unread(seen)], kind


@pytest.mark.parametrize("name", corpus.load(FOLDER))
def test_what_an_oracle_found_once_stays_mended(house: House, name: str) -> None:
    assert [] == [str(one) for one in unread(house.see(decoded(corpus.load(FOLDER)[name])))]
