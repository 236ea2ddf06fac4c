"""What somebody who has started the server wants to know: where it is, what it serves, how it is tried, and what is missing."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from msgspec import Struct

from proxy.config.settings import (
    BuiltinSettings,
    EmbeddedSettings,
    LiteLLMSettings,
    OpenAISettings,
    ServerSettings,
    Settings,
    UpstreamSettings,
)
from proxy.policy.loading import load_policies

log = logging.getLogger("groundwire")

GENERATED_KEY_VARIABLE = "GROUNDWIRE_GENERATED_ADMIN_KEY"
"""How ``serve`` hands workers the admin key that it made for this start."""


class StartRoute(Struct, frozen=True):
    """One route, as the start page shows it."""

    base_url: str
    """For a client."""
    upstream: str
    kind: str
    policy: str
    how: str
    """Its delivery, or shadow mode."""
    notes: tuple[str, ...]
    """What keeps the upstream from answering."""
    bare_for: str = ""
    """Whose clients it is made for, where those add what stands behind the prefix themselves."""

    @property
    def for_client(self) -> str:
        """The base URL, and whose client wants another."""
        return f"{self.base_url.removesuffix('/v1')} ({self.bare_for}; others: {self.base_url})" if self.bare_for else self.base_url


class StartPage(Struct, frozen=True):
    """What somebody who has started the server wants to know."""

    address: str
    routes: tuple[StartRoute, ...]
    dashboard: str
    admin_key: str
    """How the dashboard is entered: a sentence, and the key itself only where this start has made it."""
    curl: str
    notes: tuple[str, ...]


_MODELS = {"messages": "claude-haiku-4-5", "gemini": "gemini-2.5-flash", "chat": "gpt-4o-mini", "responses": "gpt-4o-mini"}
"""To try an upstream with, by the API that its server speaks first."""
_BARE = {"messages": "Anthropic's SDKs and Claude Code", "gemini": "Google's SDKs and Gemini CLI"}


def start_page(
    settings: Settings, server: ServerSettings, port: int, notes: Mapping[str, tuple[str, ...]] | None = None, store: str = ""
) -> StartPage:
    """The page of a server that listens on `port`, with `notes` on upstreams and on the store."""
    host = "127.0.0.1" if server.host in ("0.0.0.0", "::", "") else server.host  # noqa: S104
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    policies, notes = load_policies(settings), notes or {}
    routes = []
    for route in settings.routes:
        policy = policies[route.prefix].default
        how = f"delivery {policy.delivery}" if policy.enforce and route.enforce else "shadow mode: it judges, and changes nothing"
        kind, told = _kind(settings.upstreams[route.upstream]), notes.get(route.upstream, ())
        bare = _BARE.get(settings.upstreams[route.upstream].spoken[0], "")
        routes.append(StartRoute(f"{address}{route.prefix}/v1", route.upstream, kind, policy.label, how, told, bare))
    return StartPage(address, tuple(routes), f"{address}/dashboard", _entrance(server), _curl(settings, address), (store,) if store else ())


def _entrance(server: ServerSettings) -> str:
    made = os.environ.get(GENERATED_KEY_VARIABLE, "")
    if made:
        return f"sign in with the key of this start: {made}"
    return "sign in with server.admin_key" if server.admin_key else "open to this machine, no key needed"


def _curl(settings: Settings, address: str) -> str:
    """A line to paste, for the last route."""
    last = settings.routes[-1]
    upstream, path = settings.upstreams[last.upstream], "chat/completions"
    model = "smollm2" if isinstance(upstream, EmbeddedSettings) else _MODELS[upstream.spoken[0]]
    if isinstance(upstream, LiteLLMSettings) and upstream.models:
        model = upstream.models[0]
    body = f"""'{{"model": "{model}", "messages": [{{"role": "user", "content": "Which planet is the largest?"}}]}}'"""
    if isinstance(upstream, BuiltinSettings):
        path, asked = "systemone", '{"q": {"type": "noul", "instructions": "It has come."}}'
        body = f"""'{{"model": "builtin", "state": "The parcel has come.", "questions": {asked}}}'"""
    key = " -H 'authorization: Bearer KEY'" if settings.keyed else ""
    return f"curl {address}{last.prefix}/v1/{path} -H 'content-type: application/json'{key} -d {body}"


def log_page(page: StartPage) -> None:
    """Write it to the log, a line each."""
    for line in welcome(page):
        log.info(line)
    for note in (*page.notes, *dict.fromkeys(f"upstream {route.upstream}: {note}" for route in page.routes for note in route.notes)):
        log.warning(note)


def welcome(page: StartPage) -> list[str]:
    """What the log says once the server is up: address, routes, dashboard, a line to paste."""
    routes = [f"  {r.for_client} -> {r.upstream} ({r.kind}), policy {r.policy}, {r.how}" for r in page.routes]
    return [f"Groundwire is up at {page.address}", *routes, f"  dashboard: {page.dashboard}", f"  try it: {page.curl}"]


def _kind(upstream: UpstreamSettings) -> str:
    if isinstance(upstream, OpenAISettings):
        return f"{upstream.__struct_config__.tag}, {upstream.place}"
    return str(upstream.__struct_config__.tag)
