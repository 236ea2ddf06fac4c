"""What ``groundwire tune`` reads of a store: the newest exchanges with bodies, the oldest of them first, on both databases."""

from proxy.cli.tune import Wanted, _rows
from proxy.store.reading import ReadOnlyDatabase
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record
from tests.stores import opened


async def test_the_newest_with_bodies_are_read_the_oldest_first(url: str) -> None:
    async with opened(url) as database:
        writer = RecordWriter(database, CountingCounters())
        for number in range(5):
            body = b'{"messages": []}' if number != 3 else None
            writer.submit(make_record(number, request_body=body, route="/a" if number == 4 else ""))
        await writer.flush()
    reader = ReadOnlyDatabase(url)
    await reader.start()
    try:
        stored, rows = await _rows(reader, Wanted(limit=2), 0.0)
        of_route = await _rows(reader, Wanted(route="/a/"), 0.0)
    finally:
        await reader.stop()
    assert (5, ["gw_00000002", "gw_00000004"]) == (stored, [row.id for row in rows])
    assert (1, ["gw_00000004"]) == (of_route[0], [row.id for row in of_route[1]])
    assert "budget" == rows[0].typed_detail.verdicts[0].stage
