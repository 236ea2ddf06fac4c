"""A page that leaves in parts: its frame before anything is read, so that it is painted at once; the rest when it is there.

The whole page and the page without what is to be read are made by the same function; both are cut where what is read begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence

from msgspec import Struct

from proxy.admin.dashboard.frame import notice
from proxy.admin.dashboard.html import Child, Html, el
from proxy.errors import ProxyError, StoreUnavailable


class Cut(Struct, frozen=True):
    """A place in a page."""

    mark: str
    """What begins there."""
    wait_s: float = 0.0
    """How long the page waits for the rest, before it sends what is above this place."""
    meanwhile: str = ""
    """What stands there until then."""


async def arriving(nothing: str, whole: Awaitable[str], cuts: Sequence[Cut]) -> AsyncIterator[str]:
    """The page, cut at most at `cuts`; `nothing` is the page without what is to be read. What goes wrong is said in its place."""
    made = asyncio.ensure_future(whole)
    last, left = "", nothing
    try:
        for cut in cuts:
            await asyncio.wait((made,), timeout=cut.wait_s)
            if made.done():
                break
            above, mark, rest = left.partition(cut.mark)
            yield above + cut.meanwhile
            last, left = cut.mark, mark + rest
        text = await made
        yield last + text.partition(last)[2] if last else text
    except (ProxyError, StoreUnavailable) as error:
        if not last:
            above, last, _ = left.partition(cuts[0].mark)
            yield above
        yield _instead(last, left, str(error))
    finally:
        made.cancel()


def _instead(mark: str, left: str, problem: str) -> str:
    """What is wrong, in place of what was to come."""
    said: Child = notice(problem, "problem")
    name = mark.partition('id="')[2].partition('"')[0]
    end = "</main>" + left.rpartition("</main>")[2]
    return str(el("section", said, id=name or None, class_="card")) + Html(end)
