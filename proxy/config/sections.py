"""Sections of config.yaml: ``server:``, ``cors:``, ``embeddings:``, ``grounding:``, ``knowledge:``, ``logging:``, ``tracing:``; parts of
``upstreams.*`` (how long it is waited for and how often it is asked, how it answers decision models' questions); and the cache folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct
from msgspec.structs import replace

from proxy.config.extras import installed, missing
from proxy.errors import ConfigError
from proxy.ledger import MAX_BODIES_BYTES, MAX_CONNECTIONS, SHARE

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Positive = Annotated[int, Meta(gt=0)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any mapping of config.yaml."""

    removed: ClassVar[Mapping[str, str]] = {}
    """Keys that it had, each with what to write instead."""


class EmbeddingSettings(Section, frozen=True, kw_only=True):
    """``embeddings:``, the model that compares texts; loaded only if a policy has a stage that does."""

    removed = {
        "max_chars": "texts are cut at 4,000 characters",
        "cache_mb": "vectors have 64 MB",
        "disk_mb": "vectors of tools are in the store",
    }
    kind: Literal["builtin", "sentence-transformers"] = "builtin"
    """``builtin`` needs no download and no torch."""
    model: str = ""
    """For ``sentence-transformers``: a name on the Hugging Face hub, or a folder (a relative one starts at config.yaml)."""
    threads: Count = 0
    """Texts that are embedded at a time, a thread for each; 0 for two, or one on a machine with a single core. For
    ``sentence-transformers``: threads of one matrix product, 0 for one."""


class GroundingSettings(Section, frozen=True, kw_only=True):
    """``grounding:``, the verifiers that run in this process; loaded only if a policy has a stage that verifies claims."""

    removed = {
        "large": "a policy's judge: is asked about what the built-in verifier is unsure of",
        "cache_size": "20,000 judgements are remembered",
        "max_waiting": "512 claims may wait",
    }
    model: str = ""
    """A folder in the built-in verifier's format (`proxy.models.verifier.onnx`) in its place; a relative one starts at config.yaml."""
    threads: Count = 0
    """Claims that each verifier judges at a time, a thread for each; 0 for two, or one on a machine with a single core."""


class KnowledgeSettings(Section, frozen=True, kw_only=True):
    """``knowledge:``, where the facts of policies' knowledge bases are asked for."""

    store: Literal["folder", "postgres"] = "folder"
    """``folder``: in the folder that a policy names, on each machine. ``postgres``: in `store.url`'s database, by pgvector, for all nodes;
    ``groundwire knowledge build FOLDER`` writes its facts there."""


def check_models(embeddings: EmbeddingSettings, file: str) -> None:
    """What no single field shows. Raises `ConfigError`."""
    library = embeddings.kind == "sentence-transformers"
    if library and not installed("sentence_transformers"):
        raise ConfigError(file, "embeddings.kind", "is not installed: pip install 'groundwire[sentence-transformers]'")
    if library != bool(embeddings.model):
        raise ConfigError(file, "embeddings.model", "name or folder needed" if library else "is for kind: sentence-transformers")


class ServerSettings(Section, frozen=True, kw_only=True):
    """``server:``"""

    host: str = "127.0.0.1"
    """Address to listen on; one that other machines can reach needs client keys, or `allow_anonymous`."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 4000
    """0 takes any free one."""
    workers: Positive = 1
    """Processes that serve, side by side."""
    admin_key: str = ""
    """For the dashboard and the operator's API below ``/groundwire``; empty leaves them open on loopback, elsewhere one is made."""
    allow_anonymous: bool = False
    """Whether clients without a key of their own may spend the operator's: from other machines, through a proxy, from web pages."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or ranges of reverse proxies whose ``x-forwarded-for`` is believed, as ``[127.0.0.1, 10.0.0.0/8]``."""
    max_body_bytes: Positive = 20_000_000
    """A longer request is a 413, ``request_too_large``."""
    max_answer_bytes: Positive = 100_000_000
    """Longest answer that is held in memory."""
    max_bodies_bytes: Positive | None = None
    """Of all requests that are being sent or answered, in each worker; past it, and past a party's share, an answer is 503 ``overloaded``.
    By default 256,000,000, or four times `max_body_bytes` if that is more; not below twice `max_body_bytes`."""
    max_connections: Positive = MAX_CONNECTIONS
    """Open connections of clients, in each worker. Past a party's share its own that has been idle longest is closed for a new one."""
    party_share: Annotated[float, Meta(ge=0.5, le=1)] = SHARE
    """Of connections, bytes of bodies and each upstream's places that one party may have: a client key, or else an ``Authorization`` and
    (half of the rest more) an address; of what it leaves free the next party the same part. 1 leaves nothing free for others."""
    write_stall_s: Seconds = 60.0
    """How long a client may read nothing of what waits for it before its connection is closed and its place at the upstream is free."""
    hosts: tuple[str, ...] = ()
    """Further names, beside loopback ones, under which a server on loopback without client keys may be asked, as ``[groundwire.test]``."""
    unready_s: Annotated[float, Meta(ge=0, le=600)] = 0.0
    """How long after SIGTERM new connections are still taken while ``/ready`` is a 503, so that a balancer leaves before the port closes:
    as long as its failed checks take."""
    drain_s: Seconds = 30.0
    """How long running streams may go on after SIGTERM, once the port is closed; and then how long a PostgreSQL store that is away is tried
    for the records that wait."""
    keep_alive_s: Seconds = 10.0
    """Pause after which a stream gets an SSE comment, whatever the delivery. Where nothing of the answer is there by then, the response
    begins all the same (200, verdict ``pending``), and what fails afterwards is an event."""

    @property
    def bodies_bytes(self) -> int:
        """`max_bodies_bytes`, or its default."""
        return self.max_bodies_bytes or max(MAX_BODIES_BYTES, 4 * self.max_body_bytes)


Origin = Annotated[str, Meta(pattern=r"^(\*|https?://[^/*\s]+)$")]


class CorsSettings(Section, frozen=True, kw_only=True):
    """``cors:``, for web pages that ask the proxy themselves."""

    origins: tuple[Origin, ...] = ()
    """Of pages that may read answers, as ``https://app.example.com``, or ``*`` for all. Empty: what each upstream allows."""


def server_problems(server: ServerSettings) -> Iterator[tuple[str, str]]:
    """Path and problem of what no single field shows."""
    if server.bodies_bytes < 2 * server.max_body_bytes:
        yield "server.max_bodies_bytes", f"expected at least twice max_body_bytes ({server.max_body_bytes}), got {server.bodies_bytes}"
    for i, name in enumerate(server.hosts):
        if not re.fullmatch(r"[a-z0-9._-]+", name):
            yield f"server.hosts[{i}]", f"expected a name in lower case without port, as groundwire.test, got {name!r}"


LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Where OpenTelemetry's exporters send spans to when nothing else is said; to the second they add ``/v1/traces``."""
METRICS_VARIABLES = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The same for figures."""


class LoggingSettings(Section, frozen=True, kw_only=True):
    """``logging:``; `groundwire serve`'s own options win over it."""

    format: LogFormat = "console"
    """Lines for a person, or one JSON object a line."""
    level: LogLevel = "info"
    """From ``info`` on there is a line for every exchange; ``warning`` keeps those that went wrong."""


class TracingSettings(Section, frozen=True, kw_only=True):
    """``tracing:``; without it no spans are made and nothing of OpenTelemetry is imported."""

    removed = {"timeout_s": "a batch has 10 s"}
    enabled: bool = True
    """False makes no spans, and keeps the section."""
    endpoint: str = ""
    """Address for OTLP over HTTP, as ``http://127.0.0.1:4318/v1/traces``; empty for the one that `ENDPOINT_VARIABLES` name."""
    headers: Mapping[str, str] = {}
    """For every call of that address, as a key."""
    service_name: str = ""
    """Empty for ``OTEL_SERVICE_NAME``, or else ``groundwire``."""
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Share of the exchanges that get spans. A client that sends a ``traceparent`` has decided for its own."""
    metrics_every_s: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds from one push of the figures of ``/metrics`` by OTLP to the next, beside the spans (``/v1/metrics``); 0 pushes none."""


def check_tracing(tracing: TracingSettings | None, file: str, environ: Mapping[str, str]) -> None:
    """What no single field shows. Raises `ConfigError`."""
    if tracing is None or not tracing.enabled:
        return
    for module in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        if problem := missing("OpenTelemetry", module, "tracing"):
            raise ConfigError(file, "tracing", problem)
    if tracing.endpoint and not re.match(r"https?://[^/]", tracing.endpoint):
        raise ConfigError(file, "tracing.endpoint", f"expected http://… or https://…, got {tracing.endpoint!r}")
    if tracing.metrics_every_s and tracing.endpoint and not re.search(r"://[^/]+/?$|/v1/traces$", tracing.endpoint):
        raise ConfigError(file, "tracing.endpoint", f"expected …/v1/traces, so that figures go to …/v1/metrics, got {tracing.endpoint!r}")
    if tracing.metrics_every_s and not tracing.endpoint and not any(environ.get(name) for name in METRICS_VARIABLES):
        raise ConfigError(file, "tracing.metrics_every_s", f"needs endpoint, or one of {', '.join(METRICS_VARIABLES)}")
    if not tracing.endpoint and not any(environ.get(name) for name in ENDPOINT_VARIABLES):
        raise ConfigError(file, "tracing.endpoint", f"is needed, as http://127.0.0.1:4318/v1/traces; or set {ENDPOINT_VARIABLES[1]}")


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """``GROUNDWIRE_CACHE``, else ``groundwire`` in the XDG cache folder (XDG Base Directory Specification 0.8)."""
    environ = os.environ if environ is None else environ
    if own := environ.get("GROUNDWIRE_CACHE"):
        return Path(own).expanduser()
    xdg = Path(environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "groundwire"


class Timeouts(Section, frozen=True, kw_only=True):
    """``upstreams.*.timeouts``, in seconds."""

    connect_s: Seconds = 10.0
    """For the connection."""
    first_byte_s: Seconds = 600.0
    """From the request being sent to the response's first bytes; a model may think for long before it answers unstreamed."""
    between_chunks_s: Seconds = 120.0
    """From one piece of an answer to the next."""
    total_s: Seconds = 1800.0
    """For the whole answer; ends one that drips on for ever."""
    queue_s: Seconds = 600.0
    """For a place where `max_concurrency` calls run; past it the answer is 503 ``overloaded``."""


class Retries(Section, frozen=True, kw_only=True):
    """``upstreams.*.retries``: exponential backoff with full jitter, before the first byte only."""

    attempts: Count = 2
    """Further tries after the first, per upstream."""
    base_s: Seconds = 0.5
    """Longest first pause; it doubles with every try."""
    max_s: Seconds = 8.0
    """Longest pause; a longer ``retry-after`` is passed to the client instead of waited for."""


Shape = Literal["openai", "systemone", "gemini"]
"""OpenAI's ``POST /v1/decisions``, System One's ``POST /v1/systemone``, Google's ``POST /v1beta/decisions``."""
MODEL = "{model}"
PATHS: dict[Shape, str] = {"openai": "/decisions", "systemone": "/systemone", "gemini": "/decisions"}
"""Where each of them has it."""
DECISION_PATHS = frozenset(PATHS.values())


class DecisionsSettings(Section, frozen=True, kw_only=True):
    """``upstreams.*.decisions``; what is left out is as the host of ``base_url`` has it, or else as most servers do."""

    removed = {"max_options": "how many options a question may have goes by the host of base_url"}
    shape: Shape | None = None
    """``openai``, ``systemone``, which most servers of open models speak, or ``gemini``."""
    path: Annotated[str, Meta(pattern=r"^(/[A-Za-z0-9._~@{}-]+)*$")] = ""
    """Behind ``base_url``, as ``/systemone``; ``{model}`` in it stands for the model's name."""
    max_questions: Positive | None = None
    """Of one call; more are asked in several, side by side."""
    usd_per_million_tokens: Annotated[float, Meta(ge=0)] | None = None
    """Of input, where neither the list of prices nor the answer names it; output costs nothing at any provider that is known."""


class DecisionApi(Struct, frozen=True, kw_only=True):
    """What a server offers."""

    shape: Shape = "systemone"
    path: str = "/systemone"
    max_questions: int = 64
    """The least that any server documents."""
    max_options: int = 255
    usd_per_million_tokens: float | None = None


_ANY = DecisionApi()
KNOWN: dict[str, DecisionApi] = {
    "api.openai.com": DecisionApi(shape="openai", path="/decisions", max_questions=400),
    "generativelanguage.googleapis.com": DecisionApi(shape="gemini", path="/decisions", max_questions=1000),
    "api.cloudflare.com": DecisionApi(path=f"/run/@cf/cloudflare/{MODEL}"),
    "api.fireworks.ai": DecisionApi(max_options=208),
    "api.perplexity.ai": DecisionApi(path="/decisions"),
    "openrouter.ai": DecisionApi(path="/decisions"),
}
"""By the host of ``base_url``; docs/guides/which-judge.md has their sources."""


def decision_api(base_url: str, given: DecisionsSettings | None) -> DecisionApi:
    """What the server at `base_url` offers, as far as it is `given` or known."""
    known = KNOWN.get(urlsplit(base_url).hostname or "", _ANY)
    if given is None:
        return known
    shape = given.shape or known.shape
    path = given.path or (known.path if shape == known.shape else PATHS[shape])
    own = {name: value for name in given.__struct_fields__ if (value := getattr(given, name)) is not None}
    return replace(known, **own | {"shape": shape, "path": path})


def path_for(api: DecisionApi, model: str) -> str:
    """The path of a call, with the model's name where it belongs. Raises `ValueError` for a name that would make another path of it."""
    if MODEL not in api.path:
        return api.path
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", model, re.ASCII):
        raise ValueError(f"{model[:100]!r} cannot stand in a path")
    return api.path.replace(MODEL, model)
