"""The pages' templates (``proxy/admin/templates``, Jinja2): how they are compiled, and what they may call.

In: a template's name, who looks, and the values of the page. Out: the page's text. Every value is escaped; what is missing is an error.
Text of models and clients goes through `visible`, which also makes visible what a reader would not see: control characters, marks that turn
the reading direction, characters of no width, letters of Unicode's tag block. Addresses that are put together go through `own_address`.

A template is read and compiled when the first page needs it, in a worker thread as all rendering, so the event loop never waits. In its
source a line break beside a tag or a brace is nothing, any other is one space: pages are as small as if each stood on one line.

The style, scripts and the chart library that pages name are read once, served from memory and cached by browsers for ever: their address
carries a hash of them all. The style stands in the page itself, as nothing is painted before it is there; Content-Security-Policy names its
hash.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import unicodedata
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
from markupsafe import Markup, escape
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from proxy import __version__
from proxy.admin.dashboard.summaries import SIGNS, adjustment, list_in, mappings_in, usage_points
from proxy.errors import InvalidRequest, NotFound, ProxyError, StoreUnavailable
from proxy.language import amounts
from proxy.store.listing import MAX_REASON_CHARS
from proxy.store.masking import mask_text

if TYPE_CHECKING:
    from jinja2 import Environment


_TYPES = {"js": "text/javascript; charset=utf-8", "svg": "image/svg+xml", "txt": "text/plain"}
_STYLES = ("dashboard.css", "parts.css", "uplot-1.6.32.min.css")
_COMMENT, _SPACE = re.compile(r"/\*.*?\*/", re.DOTALL), re.compile(r"\s+")


class StaticFiles:
    """The files of ``proxy/admin/static``."""

    def __init__(self) -> None:
        folder = files("proxy.admin") / "static"
        kept = sorted((f for f in folder.iterdir() if f.name.rpartition(".")[2] in _TYPES), key=lambda file: file.name)
        self._files = {file.name: file.read_bytes() for file in kept}
        whole = sha256()
        for name, content in self._files.items():
            whole.update(name.encode() + b"\0" + content)
        self.style = "".join(_smaller((folder / name).read_text("utf-8")) for name in _STYLES)
        """Of every page."""
        whole.update(self.style.encode())
        self.version = whole.hexdigest()[:12]

    def path(self, name: str) -> str:
        """Where a file is served. Raises `KeyError` for one that is not there."""
        _ = self._files[name]
        return f"/dashboard/static/{self.version}/{name}"

    @property
    def style_source(self) -> str:
        """What Content-Security-Policy calls `style`."""
        return f"'sha256-{b64encode(sha256(self.style.encode()).digest()).decode()}'"

    async def serve(self, request: Request) -> Response:
        """One file; it tells nothing about anybody, and the page to sign in needs it."""
        name = request.path_params["name"]
        content = self._files.get(name)
        if content is None:
            raise NotFound("no such file; load the page again")
        kind = _TYPES[name.rpartition(".")[2]]
        headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff", "content-type": kind}
        return Response(content, headers=headers)


def _smaller(style: str) -> str:
    """Without comments, and with one space where there were several."""
    return _SPACE.sub(" ", _COMMENT.sub("", style)).strip()


STATIC = StaticFiles()
"""Of this installation; never changed."""


_BREAK = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\})|[ \t]*\n\s*", re.DOTALL)
"""Code of a template, within which line breaks stay, or a line break."""
_UNSEEN = re.compile(
    "[\U000e0000-\U000e007f]+|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff]"
)
"""Not among them: tab, line feed, and the joiners and variation selectors that scripts and emoji need."""
_TAG_BLOCK = 0xE0000
_SHORT_CHARS = 22
_MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")
_OPEN, _CLOSE = Markup("<bdi>"), Markup("</bdi>")


class Visitor(Struct, frozen=True, kw_only=True):
    """Who looks, and what waits for them."""

    csrf: str
    """The token of this session's decisions."""
    signed_in: bool = False
    """Whether there is a session to end: not on a server without an admin key."""
    pending: int = 0
    """Items in quarantine that nobody has decided."""
    open_clashes: int = 0


async def page(
    name: str, visitor: Visitor | None, status: int = 200, headers: Mapping[str, str] | None = None, /, **values: Any
) -> HTMLResponse:
    """A whole page as a response."""
    return HTMLResponse(await render_in_thread(name, visitor, **values), status, headers)


async def render_in_thread(name: str, visitor: Visitor | None, /, **values: Any) -> str:
    """A page's text, made in a worker thread."""
    return await asyncio.to_thread(render, name, visitor=visitor, **values)


def render(name: str, /, **values: Any) -> str:
    """A template's text, as UTF-8 can hold it."""
    text = environment().get_template(name).render(values)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@cache
def environment() -> Environment:
    """The templates, each compiled once; autoescape on, and no name without a value."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # a tenth of a second, which no server without visitors needs

    made = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_source), auto_reload=False)
    made.policies["json.dumps_function"] = lambda value: msgspec.json.encode(value).decode()
    made.policies["json.dumps_kwargs"] = {}
    filters: tuple[Callable[..., Any], ...] = (
        *(amounts.number, amounts.share, amounts.score, amounts.milliseconds, amounts.dollars),
        *(visible, isolate, cut, pretty, short, moment, minute, own_address),
        *(usage_points, mappings_in, list_in, adjustment, mask_text),
    )
    made.filters |= {function.__name__: function for function in filters}
    made.globals |= {function.__name__: function for function in (amounts.many, record_path, run_path, with_query)}
    made.globals |= {
        "NONE": amounts.NONE,
        "MAX_REASON_CHARS": MAX_REASON_CHARS,
        "SIGNS": SIGNS,
        "version": __version__,
        "static": STATIC,
        "style": Markup(STATIC.style),  # noqa: S704 - our own file, the same for everybody
    }
    return made


def _source(name: str) -> tuple[str, str, Callable[[], bool]]:
    """A template without its line breaks; each stays as a comment, so that errors name the right line."""
    text = (files("proxy.admin") / "templates" / name).read_text("utf-8")

    def joined(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        beside = text[max(match.start() - 1, 0) : match.start()] in (">", "}", "") or text[match.end() : match.end() + 1] in ("<", "{", "")
        return ("" if beside else " ") + "{#" + "\n" * match[0].count("\n") + "#}"

    return _BREAK.sub(joined, text), name, lambda: True


# ---- text from outside ----


def visible(text: object) -> Markup:
    """Text from outside, with a mark for each character that cannot be seen."""
    return Markup(_UNSEEN.sub(_mark, str(escape(str(text)))))  # noqa: S704 - escaped, and our own marks in it


def isolate(text: object) -> Markup:
    """A short text from outside between our own words: its reading direction stays inside it."""
    return _OPEN + visible(text) + _CLOSE


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where it is shortened."""
    return text if len(text) <= limit else text[:limit] + " …"


def pretty(value: Any) -> str:
    """A value as JSON that a person reads; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _mark(match: re.Match[str]) -> str:
    characters = match[0]
    code = ord(characters[0])
    if code >= _TAG_BLOCK:
        hidden = "".join(chr(ord(c) - _TAG_BLOCK) for c in characters if 0x20 <= ord(c) - _TAG_BLOCK < 0x7F)
        words, title = f"hidden: {hidden or len(characters)}", "letters of Unicode's tag block, which nobody sees"
    else:
        words, title = f"U+{code:04X}", unicodedata.name(chr(code), "control character").lower()
    return f'<span class="unseen" title="{escape(title)}">{escape(words)}</span>'


# ---- times and addresses ----


def moment(at: float) -> Markup:
    """A time, in UTC until the page's script has put it into the viewer's zone; the title stays UTC."""
    utc = time.gmtime(at)
    date, clock = time.strftime("%Y-%m-%d", utc), time.strftime("%H:%M:%S", utc)
    stamp = f"{date}T{clock}.{int(at % 1 * 1000):03d}Z"
    words = f'<span class="date">{date}</span> <span class="time">{clock}</span>'
    return Markup(f'<time datetime="{stamp}" title="{date} {clock} UTC">{words}</time>')  # noqa: S704 - digits


def minute(at: float) -> str:
    """A time in UTC as a browser's field for it takes it; with seconds where it has some."""
    return time.strftime("%Y-%m-%dT%H:%M:%S" if at % 60 >= 1 else "%Y-%m-%dT%H:%M", time.gmtime(at))


def seconds_of(text: str, name: str) -> float | None:
    """What such a field gives; None for nothing. Raises `InvalidRequest`."""
    if not text:
        return None
    try:
        if _MINUTE.fullmatch(text) is None:
            raise ValueError(text)
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidRequest(f"{name}: expected a minute in UTC, as 2026-02-03T14:05", param=name) from None


def check_choice(name: str, given: str, known: Sequence[str]) -> None:
    """Raises `InvalidRequest` for what cannot be chosen."""
    if given not in known:
        raise InvalidRequest(f"{name}: expected one of {', '.join(filter(None, known))}", param=name)


def record_path(record_id: str) -> str:
    """The page of an exchange."""
    return f"/dashboard/records/{quote(record_id, safe='')}"


def run_path(run_id: str) -> str:
    """The page of a run."""
    return f"/dashboard/runs/{quote(run_id, safe='')}"


def with_query(path: str, **values: str | None) -> str:
    """`path` with those values that there are."""
    given = {name: value for name, value in values.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def own_address(address: str) -> str:
    """An address that a page leads to. Raises `ValueError` for one outside of this server."""
    if not address.startswith(("/", "#", "?")) or address.startswith(("//", "/\\")):
        raise ValueError(f"the address leads away: {address[:80]!r}")
    return address


def short(name: str) -> str:
    """A long id or name by how it begins, for who knows it, and by its end, which tells it from others of its kind."""
    return name if len(name) <= _SHORT_CHARS else f"{name[:12]}…{name[-9:]}"


# ---- a page that leaves in parts ----


class Cut(Struct, frozen=True):
    """A place in a page."""

    mark: str
    """What begins there."""
    wait_s: float = 0.0
    """How long the page waits for the rest, before it sends what is above this place."""
    meanwhile: str = ""
    """What stands there until then."""


async def send_in_parts(nothing: str, whole: Awaitable[str], cuts: Sequence[Cut]) -> AsyncIterator[str]:
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
        yield await asyncio.to_thread(_instead, last, left, str(error))
    finally:
        made.cancel()


def _instead(mark: str, left: str, problem: str) -> str:
    """What is wrong, in place of what was to come."""
    id_ = mark.partition('id="')[2].partition('"')[0]
    return render("problem.html", problem=problem, id=id_) + "</main>" + left.rpartition("</main>")[2]
