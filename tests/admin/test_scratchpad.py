"""The operator's list of what left prompts."""

import re
from typing import Any

from proxy.context.archive import reference
from tests.conftest import Running, Start

PATH = "/groundwire/v1/scratchpad"
KEY = "server: {admin_key: s3cret}\n"


async def put(proxy: Running, *items: tuple[str, str, bytes]) -> list[str]:
    """Each is client, run and content."""
    pad: Any = proxy.app.routes[0].default.pipeline.stages[0].ports.scratchpad
    return [await pad.put(content, client=client, run_id=run, media_type="text/plain") for client, run, content in items]


POLICY = "name: p\ndelivery: tap\nstages: [budget: {}]\n"


async def test_items_are_listed_without_their_bytes_by_run_and_client(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        ids = await put(proxy, ("alice", "r", b"one"), ("alice", "s", b"two"), ("bob", "r", b"three"))
        listed = (await proxy.get(PATH)).json
        found = [[row["id"] for row in (await proxy.get(PATH + query)).json["data"]] for query in ("?run_id=s", "?client=bob", "?run_id=x")]
        content = (await proxy.get(f"{PATH}/{ids[2]}")).body
    assert ("list", False, ids[::-1]) == (listed["object"], listed["has_more"], [row["id"] for row in listed["data"]])
    assert [[ids[1]], [ids[2]], []] == found
    assert b"three" == content
    row = listed["data"][0]
    assert {"object", "id", "client", "run_id", "media_type", "size_bytes", "created_at", "used_at"} == set(row)
    assert ("scratchpad_item", "bob", "r", "text/plain", 5) == tuple(
        row[k] for k in ("object", "client", "run_id", "media_type", "size_bytes")
    )


async def test_the_list_comes_in_pages(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        ids = await put(proxy, ("alice", "r", b"one"), ("alice", "r", b"two"))
        first = (await proxy.get(PATH + "?limit=1")).json
        rest = (await proxy.get(f"{PATH}?limit=1&after={ids[1]}")).json
        wrong = (await proxy.get(PATH + "?limit=0")).status
    assert ([ids[1]], True) == ([r["id"] for r in first["data"]], first["has_more"])
    assert ([ids[0]], False) == ([r["id"] for r in rest["data"]], rest["has_more"])
    assert 400 == wrong


async def test_only_the_operator_sees_it(start: Start) -> None:
    async with start(config=KEY) as proxy:
        assert [401, 200] == [(await proxy.get(PATH)).status, (await proxy.get(PATH, authorization="Bearer s3cret")).status]


async def test_the_short_id_of_a_reference_in_a_prompt_is_enough(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        (item_id,) = await put(proxy, ("alice", "r", b"one"))
        named = re.search(r"(sp_\w+)\]$", reference(item_id, "tool", 3))
        assert named is not None
        got = [await proxy.get(f"{PATH}/{name}") for name in (named[1], named[1][:8], "sp_" + "0" * 12)]
    assert len(named[1]) < len(item_id)
    assert [(200, b"one"), 404, 404] == [(got[0].status, got[0].body), got[1].status, got[2].status]
