"""What people say of findings: on an exchange's page, over the API, in the figures, and given out as labelled data."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.store.feedback import DatabaseFeedback, Feedback
from tests.admin.pages import Browser
from tests.browser import making
from tests.conftest import Running, Start
from tests.store.conftest import opened

BERLIN = making.ANSWER.index("It stands in Berlin.")
PLACE = f"0:{BERLIN}-{BERLIN + 20}"


async def kept(proxy: Running) -> str:
    """The id of an exchange with findings."""
    record = making.whole(1, time.time() - 5, outcome="warn", detail=making.detail(0.8, "warn"))
    await making.keep(proxy.app.database, [record])
    return record.id


async def test_a_sentences_verdict_is_called_wrong_on_its_page_and_the_page_tells_it(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        record = await kept(proxy)
        page = await browser.page(f"/dashboard/records/{record}")
        fields = {
            "csrf": page.csrf,
            "stage": "claims",
            "place": PLACE,
            "said": "wrong",
            "expected": "supported",
            "note": "see p. 3",
            "by": "ann",
        }
        answer = await browser.post(f"/dashboard/records/{record}/feedback", fields)
        after = await browser.page(answer.headers["location"])
        (entry,) = (await proxy.get("/groundwire/v1/feedback?stage=claims")).json["data"]
    assert PLACE in [field["value"] for field in page.all("input", type="hidden", name="place")]
    assert (303, "ann says this is wrong, it should be supported: see p. 3" in after.text) == (answer.status, True)
    assert (False, True) == tuple("people called 1 finding wrong" in one.text for one in (page, after))
    assert (record, "contradicted", "wrong", "supported") == (entry["record_id"], entry["label"], entry["said"], entry["expected"])
    assert ("It stands in Berlin.", making.PASSAGE) == (entry["content"]["text"], entry["content"]["evidence"]["text"])


async def test_a_later_word_takes_the_place_of_an_earlier_one(start: Start) -> None:
    async with start() as proxy:
        body = {"record_id": await kept(proxy), "stage": "budget", "place": "context_usage_high"}
        answers = [await proxy.post(body | {"said": said}, "/groundwire/v1/feedback") for said in ("wrong", "right")]
        found = (await proxy.get("/groundwire/v1/feedback")).json["data"]
    assert ([200, 200], [("warn", "right")]) == ([one.status for one in answers], [(one["label"], one["said"]) for one in found])


REFUSED = [
    ({"place": "0:1-2"}, 404),
    ({"stage": "poisoning"}, 404),
    ({"record_id": "gw_none"}, 404),
    ({"said": "maybe"}, 400),
    ({"expected": "contradicted"}, 400),
    ({"expected": "block"}, 400),
    ({"said": "right", "expected": "supported"}, 400),
    ({"by": "policy"}, 400),
]


async def test_nothing_is_kept_of_a_finding_that_the_record_does_not_have(start: Start) -> None:
    async with start() as proxy:
        body = {"record_id": await kept(proxy), "stage": "claims", "place": PLACE, "said": "wrong"}
        statuses = [(await proxy.post(body | change, "/groundwire/v1/feedback")).status for change, _ in REFUSED]
        found = (await proxy.get("/groundwire/v1/feedback")).json["data"]
    assert ([status for _, status in REFUSED], []) == (statuses, found)


async def test_the_overview_counts_it_by_stage(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        store = DatabaseFeedback(proxy.app.database)
        for number, (stage, said) in enumerate((("claims", "right"), ("claims", "wrong"), ("budget", "right"))):
            await store.put(entry(number, stage=stage, said=said))
        await browser.get("/dashboard/figures")  # the page does not wait for them
        text = (await browser.page()).text
    assert "67% right, of 3 flags that people looked at" in text
    assert "budget: 1 of 1 right, 21% to 100% · claims: 1 of 2 right, 9% to 91%" in text


def entry(number: int, **changes: Any) -> Feedback:
    fields = {
        "record_id": f"gw_{number}",
        "client": "a",
        "policy": "p",
        "stage": "claims",
        "place": "0:0-9",
        "label": "unsupported",
        "said": "wrong",
    }
    return Feedback(**(fields | changes))


def test_it_is_given_out_as_lines_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    async def fill() -> None:
        async with opened(f"sqlite:///{tmp_path}/store.db") as database:
            for number in range(3):
                await DatabaseFeedback(database).put(entry(number, said="right" if number else "wrong"))

    asyncio.run(fill())
    config = tmp_path / "config.yaml"
    config.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/store.db'}}\nupstreams: {{main: {{kind: embedded}}}}\n"
        "routes: [{prefix: '', upstream: main, policy: policy.yaml}]\n"
    )
    (tmp_path / "policy.yaml").write_text("name: p\ndelivery: hold\nstages: []\n")
    status = main(["feedback", "export", "--said", "wrong", "--config", str(config)])
    out = capsys.readouterr().out
    assert (0, ["gw_0"]) == (status, [json.loads(line)["record_id"] for line in out.splitlines()])
