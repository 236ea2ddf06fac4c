"""How far a chat request goes before a stage sees it: a stranger who follows it should not have to open many files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from proxy.exchange import Exchange
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from tests.conftest import CHAT, Start

PROXY = Path(__file__).parents[2] / "proxy"
ENTERED: list[str] = []
"""Files of the proxy in the order in which the last request came to them, up to the first stage."""


class First(Stage):
    """The first stage of its policy."""

    name = "first"

    async def on_request(self, exchange: Exchange) -> None:
        sys.setprofile(None)


@contextmanager
def following() -> Iterator[None]:
    """Note the files that are entered within, from the application's call on."""
    ENTERED.clear()

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(PROXY) or path.is_relative_to(PROXY / "testing"):
            return
        name = path.relative_to(PROXY).as_posix()
        if frame.f_code.co_name == "__call__" and name == "app.py":
            ENTERED.clear()
        if name not in ENTERED:
            ENTERED.append(name)

    sys.setprofile(enter)
    try:
        yield
    finally:
        sys.setprofile(None)


async def test_a_chat_request_is_in_few_files_before_its_first_stage(start: Start) -> None:
    async with start(policy="name: p\ndelivery: tap\nstages: [first]\n", stages=(*STAGES, First)) as proxy:
        await proxy.post(CHAT)
        with following():
            await proxy.post(CHAT)
    assert "app.py" == ENTERED[0]
    assert "pipeline.py" in ENTERED
    assert len(ENTERED) <= 22, "\n".join(ENTERED)
