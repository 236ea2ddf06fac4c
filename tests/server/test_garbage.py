"""A request that is over is freed at once, also a refused one: the garbage collector stops everybody while it frees a large body."""

from __future__ import annotations

import gc

import pytest

from proxy.errors import PolicyBlocked
from proxy.exchange import Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import completion, reply
from tests.conftest import CHAT, Start


class Refuses(Stage):
    """No request."""

    name = "refuses"

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        raise PolicyBlocked("no")


@pytest.mark.parametrize(("stages", "status"), [("[]", 200), ("[refuses]", 400)], ids=["answered", "refused"])
async def test_a_request_that_is_over_is_no_garbage(start: Start, stages: str, status: int) -> None:
    policy = f"name: p\ndelivery: hold\nstages: {stages}\n"
    async with start(reply(completion("Yes.")), reply(completion("Yes.")), policy=policy, stages=(*STAGES, Refuses), bodies=False) as proxy:
        first = await proxy.post(CHAT)
        gc.disable()
        gc.freeze()  # what all other tests have left is not looked at: collecting it may take longer than an idle connection is kept
        try:
            second = await proxy.post(CHAT)
            left = sum(isinstance(one, Exchange) for one in gc.get_objects())
        finally:
            gc.unfreeze()
            gc.enable()
    assert (status, status, 0) == (first.status, second.status, left)
