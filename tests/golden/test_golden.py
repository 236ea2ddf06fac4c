"""Every golden exchange is as its file says, to the byte. ``python -m tests.golden --write`` writes the files anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.golden.cases import CASES, Case
from tests.golden.files import FILES, path_of
from tests.golden.serving import Goldens, goldens

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> AsyncIterator[Goldens]:
    async with goldens(tmp_path_factory.mktemp("golden"), migrated_file) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_exchange_is_as_its_file_says(running: Goldens, case: Case) -> None:
    assert path_of(case).read_text(encoding="utf-8") == await running.golden(case)


async def test_every_file_has_its_case() -> None:
    assert {path_of(case) for case in CASES} == set(FILES.rglob("*.txt"))
