"""What can be known before the server starts, and before its store is migrated: said in one sentence each, with what to do.

What can never work (a port that is taken, a model's file that is not there) is a `ConfigError`. What may come right while the server runs
(a store that is locked, an upstream that does not answer, a key that is not set) is a note, which the start page and the log show.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from proxy.config.conversion import read_yaml
from proxy.config.settings import EmbeddedSettings, LiteLLMSettings, LocalSettings, OpenAISettings, ServerSettings, Settings
from proxy.errors import ConfigError
from proxy.store.drivers import file_path, store_url
from proxy.upstreams.gguf import find_model

_CONNECT_S = 2.0
_LOCKED_S = 1.0
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


def check_port(server: ServerSettings) -> None:
    """Raises `ConfigError` where the address cannot be listened on."""
    if not server.port:
        return
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError as error:
            raise ConfigError(f"{server.host}:{server.port}", "", _why_not_bound(error, server)) from error


def _why_not_bound(error: OSError, server: ServerSettings) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {server.port} is in use by another program: stop that, or take another with --port {server.port + 1}"
    if error.errno == errno.EACCES:
        return f"this user may not listen on port {server.port}: take one above 1023 with --port"
    return f"cannot be listened on ({error.strerror}): server.host is one of this machine's addresses, or 0.0.0.0 for all"


def check_models(settings: Settings) -> None:
    """Raises `ConfigError` for a file of a local model that is not there."""
    for upstream in settings.upstreams.values():
        if isinstance(upstream, EmbeddedSettings):
            find_model(upstream.model_path)


def store_note(settings: Settings, source: str) -> str:
    """Why the store cannot be written now; "" where it can, and for a database on another machine, which is seen when it is opened."""
    path = file_path(url) if (url := store_url(settings.store.url, source)).drivername.startswith("sqlite") else None
    if path is None:
        return ""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        return f"store: the folder {folder} does not exist, so nothing is recorded: make it, or set store.url"
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        return f"store: {path} is not writable, so nothing is recorded: change its permissions, or set store.url"
    if not Path(path).exists():
        return ""
    try:
        with closing(sqlite3.connect(path, timeout=_LOCKED_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if "locked" in str(error):
            return f"store: {path} is locked by another program; records wait until it lets go: end it, or set another store.url"
        return f"store: {path} is no database that can be used ({error}), so nothing is recorded: move it away, or set store.url"
    return ""


def key_notes(settings: Settings, source: str) -> dict[str, str]:
    """By upstream that a route leads to: which key it is without, where it needs one."""
    try:
        raw = read_yaml(source)
    except ConfigError:  # a file that has changed meanwhile: the notes lack the variable's name
        raw = {}
    found = {}
    for name in dict.fromkeys(route.upstream for route in settings.routes):
        upstream = settings.upstreams[name]
        if isinstance(upstream, LocalSettings) or upstream.api_key or not _wants_key(upstream):
            continue
        variable = _REFERENCE.search(str(_at(raw, "upstreams", name, "api_key")))
        found[name] = f"no key: set {variable[1]}" if variable else "no key: set api_key, or api_key: forward for the client's own"
    return found


def _wants_key(upstream: OpenAISettings | LiteLLMSettings) -> bool:
    """Whether calls without a key are likely to be refused: a server on this machine or network rarely asks for one."""
    if isinstance(upstream, OpenAISettings):
        return not upstream.headers and not _is_private(urlsplit(upstream.base_url).hostname or "")
    return bool(upstream.model_prefix) and not upstream.params and not upstream.base_url


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal", ".lan"))


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if value is not None else ""


class Reach:
    """Whether upstreams answer on their ports, asked in the background so that no start waits for a network."""

    def __init__(self, settings: Settings, connect: Callable[..., Any] = socket.create_connection) -> None:
        """Begins to ask."""
        self._connect = connect
        self._notes: dict[str, str] = {}
        used = {name: settings.upstreams[name] for name in dict.fromkeys(route.upstream for route in settings.routes)}
        addresses = {name: found.base_url for name, found in used.items() if not isinstance(found, LocalSettings) and found.base_url}
        self._asking = [threading.Thread(target=self._ask, args=pair, daemon=True) for pair in addresses.items()]
        for thread in self._asking:
            thread.start()

    def _ask(self, name: str, base_url: str) -> None:
        parts = urlsplit(base_url)
        try:
            address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            self._connect(address, timeout=_CONNECT_S).close()
        except TimeoutError:
            self._notes[name] = f"no answer from {parts.netloc}: check base_url and the network"
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._notes[name] = f"cannot be reached ({parts.netloc}: {reason.lower()}): check base_url"

    def notes(self, wait_s: float) -> dict[str, str]:
        """By upstream, what is wrong; waits for at most `wait_s` for those that have not answered yet."""
        until = time.monotonic() + wait_s
        for thread in self._asking:
            thread.join(max(0.0, until - time.monotonic()))
        return dict(self._notes)
