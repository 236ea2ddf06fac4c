"""A conversation's compactions, one after the other."""

from msgspec.structs import replace

from proxy.context.compaction.parts import CompactedPrompt, Part, messages_of, parts_of, recall, store
from proxy.testing import make_exchange, make_ports
from tests.conversations import turns


async def test_one_that_covers_no_more_messages_takes_the_place_of_the_one_before() -> None:
    messages = turns(4, 20, tool_words=20)
    exchange, ports = make_exchange(messages), make_ports()
    parts = parts_of(exchange.messages, exchange.conversation)
    late = next(i for i in reversed(range(len(parts))) if parts[i].message["role"] == "tool")
    archived = [
        *parts[:late],
        replace(parts[late], message={**parts[late].message, "content": "[archived]"}, made=True),
        *parts[late + 1 :],
    ]
    first = await store(exchange, ports, archived, CompactedPrompt(parts))
    folded = [archived[0], Part({"role": "user", "content": "[summary]"}, 1, 5, made=True), *archived[5:]]
    second = await store(exchange, ports, folded, first)
    assert messages_of(folded) == messages_of(second.parts)
    assert messages_of(folded) == messages_of((await recall(exchange, ports)).parts)
    assert second.length > first.length
