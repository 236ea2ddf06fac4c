"""Every golden exchange is as its file says, to the byte. ``python -m tests.golden --write`` writes the files anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.golden.cases import CASES, KINDS, PASSING, SPOKEN, Case
from tests.golden.files import FILES, path_of
from tests.golden.serving import Goldens, goldens
from tests.golden.text import ExchangeText

pytestmark = pytest.mark.asyncio(loop_scope="module")
UNCHANGED = [case for case in CASES if case.client == case.server and KINDS[case.kind].policies == PASSING and not KINDS[case.kind].slow]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> AsyncIterator[Goldens]:
    async with goldens(tmp_path_factory.mktemp("golden"), migrated_file) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_exchange_is_as_its_file_says(running: Goldens, case: Case) -> None:
    assert path_of(case).read_text(encoding="utf-8") == await running.golden(case)


async def test_every_file_has_its_case() -> None:
    assert {path_of(case) for case in CASES} == set(FILES.rglob("*.txt"))


async def test_a_policy_that_changes_nothing_changes_no_byte_where_both_sides_speak_one_api() -> None:
    """Whatever the files are written to say: only a stream behind the gate may be cut anew, where its sentences end."""
    changed = []
    for case in UNCHANGED:
        tap, gate, hold = path_of(case).read_text(encoding="utf-8").split("\n=== policy ")[1:]
        if "⟨the client's body⟩" not in tap or "⟨the upstream's body⟩" not in tap:
            changed.append(f"{case.name}: tap")
        changed += [f"{case.name}: hold"] if not _same(hold) else []
        changed += [f"{case.name}: gate"] if not _same(gate) and not case.streams else []
    assert [] == changed
    assert {case.client for case in UNCHANGED} == set(SPOKEN)


def _same(sections: str) -> bool:
    """Whether request and answer are as under the first policy."""
    asked, got = (sections.partition(f"--- {title}")[2].partition("\n--- ")[0] for title in ("upstream gets", "client gets"))
    return asked.endswith("⟨as under tap⟩") and got.endswith("⟨as under tap⟩")


async def test_what_differs_from_run_to_run_is_named_and_all_else_can_be_read_back() -> None:
    text, identity, other = ExchangeText(), "0123456789ab" * 3, "ba9876543210" * 3
    assert "x-groundwire-id: gw_ID\n" == text.headers([("X-Groundwire-Id", "gw_" + "0" * 28), ("Date", "today")])
    assert '"resp_ID1" "msg_ID1_0" "resp_ID2"' == text.body(f'"resp_{identity}" "msg_{identity}_0" "resp_{other}"'.encode())
    assert '"created":NOW "created": 1700000000' == text.body(b'"created":1795000000 "created": 1700000000')
    assert "a⟨U+200D⟩e⟨U+0301⟩⟨U+000D⟩\nZwölf" == text.body("a\u200de\u0301\r\nZwölf".encode())
    long = b'{"a": [' + b", ".join([b'{"b": "%d"}' % i for i in range(40)]) + b"]}"
    assert long.decode() == text.body(long).replace("↩\n", "")
    assert all(len(line) < 20 for line in text.body(long).split("\n"))


async def test_signs_of_life_are_named_and_one_within_an_event_is_not_taken_out() -> None:
    sign = b": keep-alive\n\n"
    between = sign + sign + b"data: 1\n\n" + sign + b"data: 2\n\n"
    assert "⟨signs of life: before the first event, and between events⟩\ndata: 1\n\ndata: 2\n\n" == ExchangeText().body(between)
    assert ": keep-alive" in ExchangeText().body(b"data: 1\n" + sign + b"data: 2\n\n")
