"""Looking at the dashboard as a browser without scripts does: pages, their forms, a session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import aiohttp

from proxy.admin.dashboard.rendering import STATIC
from proxy.stages.registry import STAGES
from tests.conftest import Answer, Running

KEY = "s3cret-admin-key"
WITH_KEY = f"server: {{admin_key: {KEY}}}\n"

PANELS = tuple(stage.panel for stage in STAGES if stage.panel is not None)
"""The dashboard's."""


class Page(HTMLParser):
    """A page's elements and text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if self.lasttag != "style":
            self.text += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """Elements of this kind with these attributes."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [found for kind, found in self.elements if kind == tag and wanted.items() <= found.items()]

    @property
    def csrf(self) -> str:
        """The token of the page's forms."""
        return self.all("input", name="csrf")[0]["value"]


class Browser:
    """A client with a cookie jar, no redirects followed, and the headers that a browser sends of its own."""

    def __init__(self, proxy: Running, url: str = "") -> None:
        self._url = url or proxy.url
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()

    async def get(self, path: str = "/dashboard", **headers: str) -> Answer:
        return await self._ask("GET", path, headers)

    async def page(self, path: str = "/dashboard") -> Page:
        answer = await self.get(path)
        assert 200 == answer.status, answer.body
        return Page(answer.body.decode())

    async def post(self, path: str, fields: Mapping[str, str] | Sequence[tuple[str, str]], **headers: str) -> Answer:
        """A form, sent from a page of the same origin unless `headers` say otherwise."""
        sent = {"content-type": "application/x-www-form-urlencoded", "origin": self._url, "sec-fetch-site": "same-origin", **headers}
        return await self._ask("POST", path, sent, urlencode(fields).encode())

    async def sign_in(self, key: str = KEY, then: str = "") -> Answer:
        return await self.post("/dashboard/sign-in", {"key": key, "then": then})

    def cookie(self) -> str:
        """The session's cookie."""
        return next(morsel.value for morsel in self._session.cookie_jar)

    def take(self, cookie: str) -> None:
        """Have this cookie."""
        self._session.cookie_jar.update_cookies({"groundwire_session": cookie})

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], data: bytes | None = None) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items() if value}
        async with self._session.request(method, self._url + path, headers=named, data=data, allow_redirects=False) as response:
            return Answer(response, await response.read())


def rules(answer: Answer) -> dict[str, str]:
    """The Content-Security-Policy by directive."""
    parts = (rule.strip().partition(" ") for rule in answer.headers["content-security-policy"].split(";"))
    return {name: value for name, _, value in parts}


def risky(page: Page) -> list[Any]:
    """What no page may have: inline code, a style but the one that its policy names, anything from another server."""
    inline = [(tag, name) for tag, given in page.elements for name in given if name.startswith("on") or name == "style"]
    leaving = [
        value
        for _, given in page.elements
        for name, value in given.items()
        if name in ("src", "href", "action") and not re.match("[/#?](?!/)", value)
    ]
    scripts = [given for given in page.all("script") if given.get("type") != "application/json" and "src" not in given]
    styles = page.html.count("<style") - page.html.count(f"<style>{STATIC.style}</style>")
    return [*inline, *leaving, *scripts, *["style"] * styles, *page.all("img"), *page.all("iframe")]
