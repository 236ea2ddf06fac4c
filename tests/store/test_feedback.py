"""What people say of findings, on both databases."""

from typing import Any

from proxy.store.database import Database
from proxy.store.feedback import DatabaseFeedback, Feedback


def entry(number: int, **changes: Any) -> Feedback:
    fields: dict[str, Any] = {
        "record_id": f"gw_{number}",
        "client": "a",
        "policy": "p",
        "stage": "claims",
        "place": "0:0-9",
        "label": "unsupported",
        "said": "wrong",
    }
    return Feedback(**(fields | changes))


async def test_it_is_kept_and_listed_on_both_databases(database: Database) -> None:
    store = DatabaseFeedback(database, clock=lambda: 12.5)
    first, second = await store.put(entry(1, content={"text": "ä\ud800"})), await store.put(entry(2, said="right"))
    changed = await store.put(entry(1, note="anew"))
    assert (first.id, "anew", {}) == (changed.id, changed.note, changed.content)
    assert {changed.id, second.id} == {one.id for one in (await store.list())[0]}
    assert [changed] == await store.of_records(["gw_1"])
