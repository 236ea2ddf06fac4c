"""config.yaml and environment -> checked settings.

Values may be ``${ENV}`` or ``${ENV:-default}``. Unknown keys, wrong types and contradictions are refused with the file, the path
inside it and what was expected: all that is wrong, not only what is found first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from proxy.config.access import Passthrough, check_passthrough
from proxy.config.alerts import AlertSettings as AlertSettings
from proxy.config.alerts import alert_problems, written_secrets
from proxy.config.conversion import Problems, mend, problems, read_yaml, suggested
from proxy.config.extras import VERIFYING, missing, missing_model
from proxy.config.keys import SHADOW as SHADOW
from proxy.config.keys import KeySettings as KeySettings
from proxy.config.keys import Limits as Limits
from proxy.config.keys import LimitSettings as LimitSettings
from proxy.config.keys import key_problems, limit_problems
from proxy.config.mcp import McpServerSettings as McpServerSettings
from proxy.config.mcp import McpSettings as McpSettings
from proxy.config.mcp import mcp_problems
from proxy.config.sections import CorsSettings as CorsSettings
from proxy.config.sections import (
    Count,
    DecisionsSettings,
    EmbeddingSettings,
    GroundingSettings,
    KnowledgeSettings,
    LoggingSettings,
    Positive,
    Section,
    TracingSettings,
    check_models,
    check_tracing,
    server_problems,
)
from proxy.config.sections import Retries as Retries
from proxy.config.sections import Seconds as Seconds
from proxy.config.sections import ServerSettings as ServerSettings
from proxy.config.sections import Timeouts as Timeouts
from proxy.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}")
_RESERVED_PREFIXES = ("/groundwire", "/dashboard", "/health", "/ready", "/metrics", "/v1")

Api = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's chat completions and Responses, Anthropic's Messages, Google's ``generateContent``."""


class StoreSettings(Section, frozen=True, kw_only=True):
    """``store:``"""

    url: str = "sqlite+aiosqlite:///groundwire.db"
    """A SQLite file, or PostgreSQL as ``postgresql+asyncpg://USER:PASSWORD@HOST/DB``."""
    replica_url: str = ""
    """A replica of that PostgreSQL: lists of exchanges, figures and reports are read there, and no request ever is. While it is away,
    or more than a minute behind, they are read at the primary."""
    bodies: bool = False
    """Whether records keep request and answer bodies (secrets masked), of the exchanges whose texts they keep."""
    texts: Literal["none", "flagged", "all"] | None = None
    """Whose words records keep beside labels, places, codes and counts (sentences, passages, messages, and `bodies`): of no exchange, of
    those where something was found, or of all. Left out: ``all`` with ``bodies: true``, else ``none``."""
    retention_days: Annotated[float, Meta(gt=0)] = 30.0
    """Records that are older go."""
    retention_mb: Positive = 2048
    """The oldest records go when the store has grown past this."""
    keys: bool = False
    """Whether clients need a key, and the store is asked for keys beside those of ``keys:``; ``groundwire keys add NAME`` makes one."""

    @property
    def kept_texts(self) -> Literal["none", "flagged", "all"]:
        """`texts`, or its default."""
        return self.texts or ("all" if self.bodies else "none")


class _Upstream(Section, frozen=True, kw_only=True, tag_field="kind"):
    timeouts: Timeouts = Timeouts()
    """See ``timeouts``."""
    retries: Retries = Retries()
    """See ``retries``."""
    fallback: tuple[str, ...] = ()
    """Upstreams to try, in order, when this one cannot be had, does not answer in time, or refuses the proxy's key (401, 402, 403)."""
    max_concurrency: Positive = 256
    """Calls at a time in each worker, of which one party may have ``server.party_share``."""
    max_concurrency_everywhere: Count = 0
    """Calls at a time of all workers and nodes together, counted by who counts limits (``limits.url``, or the store). Every call then waits
    for the counter once; 0 for no such bound. While the counter is away `max_concurrency` alone holds."""
    max_queue: Count = 1024
    """Requests that may wait for a place; past it the answer is 503 ``overloaded``."""
    drop_fields: tuple[str, ...] = ()
    """Fields of clients of other APIs that a translation may leave out, as ``[thinking]``; else one without a counterpart is a 400."""

    @property
    def spoken(self) -> tuple[Api, ...]:
        """The APIs that its server speaks; what comes in another is translated to the first."""
        return ("chat",)


class OpenAISettings(_Upstream, frozen=True, kw_only=True, tag="openai"):
    """Any OpenAI-compatible server, spoken to byte for byte."""

    base_url: str
    """Up to and with ``/v1``; a query behind it (``?api-version=``) goes with each call."""
    api_key: str = ""
    """The key, ``forward`` for the client's own ``Authorization``, or empty for none."""
    model_prefix: str = ""
    """Under which the model catalogue lists this server's models, as ``azure/``; never sent."""
    headers: Mapping[str, str] = {}
    """Extra headers for every call."""
    proxy: str = ""
    """``http://USER:PASSWORD@HOST:PORT`` of a forward proxy, ``none``, or empty for ``HTTPS_PROXY`` and its like of the environment."""
    apis: Annotated[tuple[Api, ...], Meta(min_length=1)] = ("chat", "responses")
    """What the server speaks itself, byte for byte: ``chat``, ``responses``, ``messages``, ``gemini``; others are translated to that."""
    decisions: DecisionsSettings | None = None
    """How it answers decision models' questions, where that is not as its host, or most servers, have it."""

    @property
    def spoken(self) -> tuple[Api, ...]:
        """As configured."""
        return self.apis

    @property
    def place(self) -> str:
        """`base_url` as it may be shown: without a login and a query, which may hold a key."""
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


class AnthropicSettings(OpenAISettings, frozen=True, kw_only=True, tag="anthropic"):
    """Anthropic's API, or a server that speaks it, byte for byte: the key goes as ``x-api-key``."""

    base_url: str = "https://api.anthropic.com/v1"
    apis: Annotated[tuple[Api, ...], Meta(min_length=1)] = ("messages",)
    """What the server speaks itself, byte for byte; clients of another API are translated to the first."""


class GeminiSettings(OpenAISettings, frozen=True, kw_only=True, tag="gemini"):
    """Google's Gemini API, or a server that speaks it, byte for byte: the key goes as ``x-goog-api-key``."""

    base_url: str = "https://generativelanguage.googleapis.com/v1beta"
    """Up to and with ``/v1beta``; a query behind it goes with each call."""
    apis: Annotated[tuple[Api, ...], Meta(min_length=1)] = ("gemini",)
    """What the server speaks itself, byte for byte; clients of another API are translated to the first."""


class LiteLLMSettings(_Upstream, frozen=True, kw_only=True, tag="litellm"):
    """Every other provider, translated by litellm."""

    model_prefix: str = ""
    """Put before the client's model name, as ``anthropic/``."""
    api_key: str = ""
    """The key, or ``forward`` for the client's own; empty leaves it to litellm, which reads the provider's environment variable."""
    base_url: str = ""
    """Of the provider, where it is not litellm's default."""
    models: tuple[str, ...] = ()
    """What ``GET /v1/models`` lists, as litellm offers no list; without a `model_prefix` a client can ask for these alone."""
    params: Mapping[str, Any] = {}
    """Further keyword arguments of every litellm call, as ``aws_region_name``."""


class LocalSettings(_Upstream, frozen=True, kw_only=True):
    """What runs on this machine, without an address or a key."""


class EmbeddedSettings(LocalSettings, frozen=True, kw_only=True, tag="embedded"):
    """A small local model beside this process, to try everything without network or key."""

    model_path: str = ""
    """A GGUF file; empty for the one that ``groundwire fetch-model`` unpacks."""
    window: Positive = 8192
    """Context window in tokens."""
    threads: Count = 0
    """0 for the machine's cores."""
    parallel: Positive = 2
    """Answers generated side by side; each has a window of its own."""


class BuiltinSettings(LocalSettings, frozen=True, kw_only=True, tag="builtin"):
    """The built-in verifier as a decision model, ``POST /v1/decisions`` and ``POST /v1/systemone``, for other programs' guardrails."""

    window: Positive = 32_768
    """Tokens of the text and the questions of one call; more is 400 ``context_length_exceeded``."""
    answer_s: Seconds = 30.0
    """Longest work at one call; past it the questions that are still open are refused."""


UpstreamSettings = OpenAISettings | AnthropicSettings | GeminiSettings | LiteLLMSettings | EmbeddedSettings | BuiltinSettings


class ModelSettings(Section, frozen=True, kw_only=True):
    """``models.NAME``: what the bundled list does not know, or knows wrongly."""

    window: Positive
    """Context window in tokens."""
    max_output_tokens: Positive | None = None
    """Longest answer in tokens."""
    encoding: str | None = None
    """tiktoken encoding; without one, counts are estimates."""


class RouteSettings(Section, frozen=True, kw_only=True):
    """``routes[]``"""

    upstream: str
    """One of ``upstreams``."""
    policy: str
    """A policy file; a relative path starts at config.yaml."""
    prefix: str = ""
    """Below which it serves ``/v1``; the longest prefix wins."""
    allow_policies: tuple[str, ...] = ()
    """Names of policy files beside `policy` (or paths) that a client may ask for."""
    allow_skip: bool = False
    """Whether a client may leave stages out with ``x-groundwire-skip``."""
    passthrough: Passthrough = None
    """Other paths below ``/v1`` that go on unjudged, as ``[models, embeddings]``, or ``none``; by default those of
    `proxy.config.access.PASSED`."""
    enforce: bool = True
    """False puts every policy of the route into shadow mode: it judges and records, and changes and blocks nothing."""


class Settings(Section, frozen=True, kw_only=True):
    """The whole of config.yaml."""

    upstreams: Mapping[str, UpstreamSettings]
    routes: tuple[RouteSettings, ...]
    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    models: Mapping[str, ModelSettings] = {}
    keys: tuple[KeySettings, ...] = ()
    teams: Mapping[str, Limits] = {}
    limits: LimitSettings = LimitSettings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    grounding: GroundingSettings = GroundingSettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    logging: LoggingSettings = LoggingSettings()
    cors: CorsSettings = CorsSettings()
    mcp: McpSettings = McpSettings()
    alerts: AlertSettings = AlertSettings()
    tracing: TracingSettings | None = None
    not_written: ClassVar[tuple[str, ...]] = ("folder",)
    folder: str = ""
    """Where config.yaml stands: relative policy paths start here. Set by `load_settings`, not by the file."""

    @property
    def stored_knowledge(self) -> bool:
        """Whether knowledge is in the store, and no folder of it need be on this machine."""
        return self.knowledge.store == "postgres"

    @property
    def keyed(self) -> bool:
        """Whether clients need a key of this server's."""
        return bool(self.keys) or self.store.keys


def load_settings(path: str | Path, environ: Mapping[str, str] | None = None, *, parts: Container[str] | None = None) -> Settings:
    """Read, expand and check config.yaml. Raises `ConfigError`, which has everything that is wrong.

    A command that needs only `parts` of it (``store``, ``server``) runs where the environment variables of the others are not set.
    """
    found = Problems()
    settings = read_settings(path, found, environ, parts=parts)
    found.raised()
    if settings is None and parts is not None:  # a variable stands where there has to be a value: all of them are said
        return load_settings(path, environ)
    assert settings is not None
    return settings


def read_settings(
    path: str | Path, found: Problems, environ: Mapping[str, str] | None = None, *, parts: Container[str] | None = None
) -> Settings | None:
    """The same, but what is wrong is added to what was `found`: then settings, where there are any, are those without it."""
    file, environ = str(path), os.environ if environ is None else environ
    raw = None
    with found.caught():
        raw = read_yaml(path)
        if isinstance(raw, dict) and "folder" in raw:
            del raw["folder"]
            found.found.append(ConfigError(file, "folder", "unknown key"))
        found.found += (ConfigError(file, path, problem) for path, problem in written_secrets(raw))
        unset: list[ConfigError] = []
        raw = expand(raw, file, environ, unset=unset)
        found.found += (error for error in unset if parts is None or re.split(r"[.[]", error.path)[0] in parts)
        unknown = {error.path for error in unset}
        for problem in list(problems(raw, Settings, lax=True)):
            if problem.path not in unknown:
                found.found.append(ConfigError(file, problem.path, problem.said, key=problem.key))
            mend(raw, problem)
        if problems(raw, Settings, lax=True):
            return None
        settings = msgspec.convert(raw, Settings, strict=False)
        whole = Problems()
        check_whole(settings, file, whole)
        found.found += (error for error in whole.found if error.path not in unknown)
        with found.caught():
            check_tracing(settings.tracing, file, environ)
        return msgspec.structs.replace(settings, folder=str(Path(path).resolve().parent))
    return None


def expand(value: Any, file: str, environ: Mapping[str, str], path: str = "", *, unset: list[ConfigError]) -> Any:
    """Replace ``${ENV}`` and ``${ENV:-default}`` in every string; one that is not set and has no default is added to `unset`."""
    if isinstance(value, dict):
        return {key: expand(item, file, environ, f"{path}.{key}".removeprefix("."), unset=unset) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, file, environ, f"{path}[{i}]", unset=unset) for i, item in enumerate(value)]
    if isinstance(value, date):  # YAML's own; what takes one reads ISO 8601
        return value.isoformat()
    if not isinstance(value, str):
        return value

    def substitute(match: re.Match[str]) -> str:
        name, has_default, default = match[1], match[2], match[3]
        found = environ.get(name, "").rstrip("\r\n")  # what `echo` puts behind a secret, and an editor at the end of its file
        if found or (name in environ and not has_default):
            return found
        if not has_default:
            problem = f"the environment variable {name} is not set; write ${{{name}:-default}} to give a default"
            unset.append(ConfigError(file, path, problem))
        return default or ""

    return _VARIABLE.sub(substitute, value)


def check_whole(settings: Settings, file: str, found: Problems) -> None:
    """What no single field shows is added to what was `found`: names that must exist, prefixes, cycles of fallbacks."""
    found.found += (ConfigError(file, path, problem) for path, problem in server_problems(settings.server))
    found.found += (ConfigError(file, path, problem) for path, problem in _of_routes(settings))
    found.found += (ConfigError(file, path, problem) for path, problem in _of_upstreams(settings))
    found.found += (ConfigError(file, path, problem) for path, problem in _of_keys(settings))
    found.found += (ConfigError(file, path, problem) for path, problem in mcp_problems(settings.mcp))
    prefixes = {route.prefix for route in settings.routes}
    found.found += (ConfigError(file, path, problem) for path, problem in alert_problems(settings.alerts, prefixes))
    if settings.store.bodies and settings.store.texts == "none":
        problem = "is none, and store.bodies keeps whole texts: leave one of them out, or write texts: flagged"
        found.found.append(ConfigError(file, "store.texts", problem))
    for i, route in enumerate(settings.routes):
        with found.caught():
            check_passthrough(route.passthrough, file, f"routes[{i}].passthrough")
    if settings.stored_knowledge and not settings.store.url.startswith("postgres"):
        problem = "is postgres, and store.url is another database: give a postgresql:// URL there, or write knowledge: {store: folder}"
        found.found.append(ConfigError(file, "knowledge.store", problem))
    with found.caught():
        check_models(settings.embeddings, file)


_Found = Iterator[tuple[str, str]]
"""Path and problem."""


def _of_routes(settings: Settings) -> _Found:
    if not settings.routes:
        yield "routes", "at least one route is needed"
    seen: set[str] = set()
    for i, route in enumerate(settings.routes):
        if route.upstream not in settings.upstreams:
            yield f"routes[{i}].upstream", _unknown(route.upstream, settings.upstreams)
        if route.prefix and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", route.prefix):
            yield f"routes[{i}].prefix", f"expected '' or a path like /rag without a slash at its end, got {route.prefix!r}"
        if any(route.prefix == p or route.prefix.startswith(p + "/") for p in _RESERVED_PREFIXES):
            yield f"routes[{i}].prefix", f"{route.prefix!r} is one of the server's own paths"
        if route.prefix in seen:
            yield f"routes[{i}].prefix", f"{route.prefix!r} is taken by an earlier route"
        seen.add(route.prefix)


def _of_upstreams(settings: Settings) -> _Found:
    for name, upstream in settings.upstreams.items():
        if (needed := _EXTRAS.get(type(upstream))) is not None and (problem := missing(*needed)):
            yield f"upstreams.{name}.kind", problem
        if isinstance(upstream, BuiltinSettings) and (problem := missing_model(*VERIFYING)):
            yield f"upstreams.{name}.kind", problem
        for other in upstream.fallback:
            if other not in settings.upstreams:
                yield f"upstreams.{name}.fallback", _unknown(other, settings.upstreams)
            if other == name:
                yield f"upstreams.{name}.fallback", "an upstream cannot be its own fallback"
        if isinstance(upstream, OpenAISettings) and not re.fullmatch(r"https?://[^/\s]\S*", upstream.base_url):
            yield f"upstreams.{name}.base_url", f"expected http://… or https://…, got {upstream.base_url!r}"
        elif isinstance(upstream, OpenAISettings) and (wanted := _suggested_url(upstream.base_url)) is not None:
            yield f"upstreams.{name}.base_url", f"expected it up to and with its version, and no further: did you mean {wanted!r}?"
        if isinstance(upstream, OpenAISettings):
            for field, value in {"api_key": upstream.api_key, **{f"headers.{key}": v for key, v in upstream.headers.items()}}.items():
                if _UNSENDABLE.search(value):
                    yield f"upstreams.{name}.{field}", "has a line break or another control character, which no header can have"
        if isinstance(upstream, OpenAISettings) and "gemini" in upstream.apis and not isinstance(upstream, GeminiSettings):
            yield f"upstreams.{name}.apis", "gemini has addresses of its own: it needs kind: gemini"
        if isinstance(upstream, OpenAISettings) and not re.fullmatch(r"(?:none|http://[^/\s]+/?)?", upstream.proxy):
            yield f"upstreams.{name}.proxy", "expected http://HOST:PORT, none, or nothing for the environment's"
        if not isinstance(upstream, LiteLLMSettings) or upstream.model_prefix:
            continue
        if upstream.api_key not in ("", "forward"):
            problem = "is needed beside an api_key (as anthropic/): without it a client could choose the provider that gets the key"
            yield f"upstreams.{name}.model_prefix", problem
        elif not upstream.models:
            problem = "is needed, or a list of models: else a client could choose any provider whose key lies in the environment"
            yield f"upstreams.{name}.model_prefix", problem


LOCAL = "the local model's engine", "xllamacpp", "local"
_EXTRAS: Mapping[type[UpstreamSettings], tuple[str, str, str]] = {
    LiteLLMSettings: ("litellm", "litellm", "litellm"),
    EmbeddedSettings: LOCAL,
}
"""By kind of upstream: its library, the module, and the extra that brings it."""
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OPERATION = re.compile(r"/(?:chat/completions|completions|responses|messages|embeddings|models)/*$")
_TWICE = re.compile(r"(/v\d+(?:beta)?)(?:\1)+/*$")
_ROOTS = {
    "https://api.openai.com": "/v1",
    "https://api.anthropic.com": "/v1",
    "https://generativelanguage.googleapis.com": "/v1beta",
}
"""Nothing answers there without what stands behind."""


def _suggested_url(base_url: str) -> str | None:
    """What was meant where a base URL cannot work: it ends in an operation, has its version twice, or lacks the ``/v1`` of its server."""
    url, mark, query = base_url.partition("?")
    bare = _TWICE.sub(r"\1", _OPERATION.sub("", url))
    if (behind := _ROOTS.get(bare.rstrip("/"))) is not None:
        return bare.rstrip("/") + behind + mark + query
    return bare + mark + query if bare != url else None


def _of_keys(settings: Settings) -> _Found:
    without_key = forwarding(settings)
    if settings.keyed and without_key:
        problem = "forward cannot go with keys: a client's Authorization is then Groundwire's own key and must not leave"
        yield f"upstreams.{without_key[0]}.api_key", problem
    yield from key_problems(settings.keys, {route.prefix for route in settings.routes})
    yield from limit_problems(settings.limits)


def spends(settings: Settings, name: str) -> bool:
    """Whether calls of the upstream `name`, or of one that stands in for it, are paid for with a key of the operator's."""
    upstream = settings.upstreams[name]
    if isinstance(upstream, OpenAISettings):
        own = upstream.api_key not in ("", "forward") or bool(upstream.headers) or "@" in urlsplit(upstream.base_url).netloc
    else:
        own = isinstance(upstream, LiteLLMSettings) and (upstream.api_key or _ambient(upstream)) not in ("", "forward")
    return own or any(spends(settings, other) for other in upstream.fallback)


def _ambient(upstream: LiteLLMSettings) -> str:
    """What litellm may find for itself: parameters, a key in the environment, the machine's own role in its cloud; "" for nothing."""
    keys = [name for name in os.environ if name.endswith(("_API_KEY", "_ACCESS_KEY_ID", "_APPLICATION_CREDENTIALS"))]
    cloud = upstream.model_prefix.startswith(("bedrock", "sagemaker", "vertex_ai", "azure"))
    return "found" if upstream.params or keys or cloud else ""


def forwarding(settings: Settings) -> list[str]:
    """Upstreams with no key but the client's own."""
    return [name for name, u in settings.upstreams.items() if not isinstance(u, LocalSettings) and u.api_key == "forward"]


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    near = suggested(name, tuple(known))
    return f"{name!r} is not one of: {', '.join(sorted(known)) or '(none)'}" + (f"; did you mean {near!r}?" if near else "")
