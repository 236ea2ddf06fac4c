"""A call that costs money is made once: not again where the server had read it."""

from proxy.testing import completion, raw, reply
from tests.conftest import Start

TWICE = "retries: {attempts: 2}"


async def test_a_server_that_reads_a_post_and_closes_is_asked_once(start: Start) -> None:
    async with start(raw(b""), reply(completion()), upstream_options=TWICE) as proxy:
        got = await proxy.post()
    assert (502, 1) == (got.status, len(proxy.upstream.calls))


async def test_a_status_that_may_pass_is_asked_for_again(start: Start) -> None:
    async with start(reply({}, 503, {"retry-after": "0"}), reply(completion()), upstream_options=TWICE) as proxy:
        got = await proxy.post()
    assert (200, 2) == (got.status, len(proxy.upstream.calls))
