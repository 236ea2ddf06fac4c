"""config.yaml and environment -> checked settings.

Values may be ``${ENV}`` or ``${ENV:-default}``. Unknown keys, wrong types and contradictions are refused with the file, the path
inside it and what was expected. `checked` serves `proxy.policy.loading` too.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from proxy.config.models import Count, EmbeddingSettings, GroundingSettings, Positive, Section, check_models
from proxy.config.observability import LoggingSettings, TracingSettings, check_tracing
from proxy.config.paths import Passthrough, check_passthrough
from proxy.config.yaml_files import read_yaml
from proxy.errors import ConfigError

T = TypeVar("T")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}")
_RESERVED_PREFIXES = ("/groundwire", "/dashboard", "/health", "/ready", "/metrics", "/v1")

Seconds = Annotated[float, Meta(gt=0)]


class ServerSettings(Section, frozen=True, kw_only=True):
    """``server:``"""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 4000
    workers: Positive = 1
    admin_key: str = ""
    allow_anonymous: bool = False
    """Whether clients without a key of their own may spend the operator's: from other machines, through a proxy, from web pages."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or ranges of reverse proxies whose ``x-forwarded-for`` is believed, as ``[127.0.0.1, 10.0.0.0/8]``."""
    max_body_bytes: Positive = 20_000_000
    max_answer_bytes: Positive = 100_000_000
    """Longest answer that is held in memory."""
    drain_s: Seconds = 30.0
    """How long running streams may go on after SIGTERM."""
    keep_alive_s: Seconds = 10.0
    """Pause after which a held stream gets an SSE comment."""


class StoreSettings(Section, frozen=True, kw_only=True):
    """``store:``"""

    url: str = "sqlite+aiosqlite:///groundwire.db"
    bodies: bool = False
    """Whether records keep request and answer bodies (secrets masked)."""
    retention_days: Annotated[float, Meta(gt=0)] = 30.0
    retention_mb: Positive = 2048
    """The oldest records go when the store has grown past this."""


class Timeouts(Section, frozen=True, kw_only=True):
    """``upstreams.*.timeouts``, in seconds."""

    connect_s: Seconds = 10.0
    first_byte_s: Seconds = 600.0
    """From the request being sent to the response's first bytes; a model may think for long before it answers unstreamed."""
    between_chunks_s: Seconds = 120.0
    total_s: Seconds = 1800.0
    """For the whole answer; ends one that drips on for ever."""


class Retries(Section, frozen=True, kw_only=True):
    """``upstreams.*.retries``: exponential backoff with full jitter, before the first byte only."""

    attempts: Count = 2
    """Further tries after the first, per upstream."""
    base_s: Seconds = 0.5
    max_s: Seconds = 8.0
    """Longest pause; a longer ``retry-after`` is passed to the client instead of waited for."""


class _Upstream(Section, frozen=True, kw_only=True, tag_field="kind"):
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    fallback: tuple[str, ...] = ()
    """Upstreams to try, in order, when this one cannot be had."""
    max_concurrency: Positive = 256
    max_queue: Count = 1024
    """Requests that may wait for a place; past it the answer is 503 ``overloaded``."""


class OpenAISettings(_Upstream, frozen=True, kw_only=True, tag="openai"):
    """Any OpenAI-compatible server, spoken to byte for byte."""

    base_url: str
    api_key: str = ""
    """The key, ``forward`` for the client's own ``Authorization``, or empty for none."""
    model_prefix: str = ""
    """Under which the model catalogue lists this server's models, as ``azure/``; never sent."""
    headers: Mapping[str, str] = {}
    """Extra headers for every call."""


class AnthropicSettings(OpenAISettings, frozen=True, kw_only=True, tag="anthropic"):
    """Anthropic's API, or a server that speaks it, byte for byte: the key goes as ``x-api-key``."""

    base_url: str = "https://api.anthropic.com/v1"


class LiteLLMSettings(_Upstream, frozen=True, kw_only=True, tag="litellm"):
    """Every other provider, translated by litellm."""

    model_prefix: str = ""
    api_key: str = ""
    base_url: str = ""
    models: tuple[str, ...] = ()
    """What ``GET /v1/models`` lists, as litellm offers no list; without a `model_prefix` a client can ask for these alone."""
    params: Mapping[str, Any] = {}
    """Further keyword arguments of every litellm call, as ``aws_region_name``."""


class EmbeddedSettings(_Upstream, frozen=True, kw_only=True, tag="embedded"):
    """A small local model beside this process, to try everything without network or key."""

    model_path: str = ""
    """A GGUF file; empty for the one that ``groundwire fetch-model`` unpacks."""
    window: Positive = 8192
    """Context window in tokens."""
    threads: Count = 0
    """0 for the machine's cores."""
    parallel: Positive = 2
    """Answers generated side by side; each has a window of its own."""


UpstreamSettings = OpenAISettings | AnthropicSettings | LiteLLMSettings | EmbeddedSettings
_KINDS = ("anthropic", "embedded", "litellm", "openai")


class ModelSettings(Section, frozen=True, kw_only=True):
    """``models.NAME``: what the bundled list does not know, or knows wrongly."""

    window: Positive
    max_output_tokens: Positive | None = None
    encoding: str | None = None
    """tiktoken encoding; without one, counts are estimates."""


class RouteSettings(Section, frozen=True, kw_only=True):
    """``routes[]``"""

    upstream: str
    policy: str
    prefix: str = ""
    allow_policies: tuple[str, ...] = ()
    """Names of policy files beside `policy` (or paths) that a client may ask for."""
    allow_skip: bool = False
    passthrough: Passthrough = None
    """Other paths below ``/v1`` that go on unjudged, as ``[models, embeddings]``, or ``none``; by default those of
    `proxy.config.paths.PASSED`."""
    enforce: bool = True
    """False puts every policy of the route into shadow mode: it judges and records, and changes and blocks nothing."""


SHADOW = "~shadow"
"""Ends the name of the client for whom a policy in shadow mode keeps what it learns: never that of one whose exchanges are changed."""


class KeySettings(Section, frozen=True, kw_only=True):
    """``keys[]``: a client key, stored hashed."""

    name: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$")]
    routes: tuple[str, ...] = ()
    """Prefixes it may use; empty for all."""


class Settings(Section, frozen=True, kw_only=True):
    """The whole of config.yaml."""

    upstreams: Mapping[str, UpstreamSettings]
    routes: tuple[RouteSettings, ...]
    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    models: Mapping[str, ModelSettings] = {}
    keys: tuple[KeySettings, ...] = ()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    grounding: GroundingSettings = GroundingSettings()
    logging: LoggingSettings = LoggingSettings()
    tracing: TracingSettings | None = None
    folder: str = ""
    """Where config.yaml stands: relative policy paths start here. Set by `load_settings`, not by the file."""


def load_settings(path: str | Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Read, expand and check config.yaml. Raises `ConfigError`."""
    file = str(path)
    raw = read_yaml(path)
    if isinstance(raw, dict) and "folder" in raw:
        raise ConfigError(file, "folder", "unknown key")
    environ = os.environ if environ is None else environ
    settings = checked(expand(raw, file, environ), Settings, file, lax=True)
    _check_whole(settings, file)
    check_tracing(settings.tracing, file, environ)
    return msgspec.structs.replace(settings, folder=str(Path(path).resolve().parent))


def expand(value: Any, file: str, environ: Mapping[str, str], path: str = "$") -> Any:
    """Replace ``${ENV}`` and ``${ENV:-default}`` in every string. Raises `ConfigError` for an unset one without default."""
    if isinstance(value, dict):
        return {key: expand(item, file, environ, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, file, environ, f"{path}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def substitute(match: re.Match[str]) -> str:
        name, has_default, default = match[1], match[2], match[3]
        found = environ.get(name, "")
        if found or (name in environ and not has_default):
            return found
        if has_default:
            return default
        problem = f"the environment variable {name} is not set; write ${{{name}:-default}} to give a default"
        raise ConfigError(file, path.removeprefix("$."), problem)

    return _VARIABLE.sub(substitute, value)


def checked(value: Any, kind: type[T], file: str, at: str = "", *, lax: bool = False) -> T:
    """Convert plain YAML into `kind`; `at` is the path of `value` inside the file. Raises `ConfigError`."""
    try:
        return msgspec.convert(value, kind, strict=not lax)
    except msgspec.ValidationError as error:
        problem, steps = _place(error, value, kind, strict=not lax)
        path = at + "".join(step if step.startswith("[") else f".{step}" for step in steps)
        raise ConfigError(file, path.removeprefix("."), _with_hint(problem, value, steps, kind)) from error


def _place(error: msgspec.ValidationError, value: Any, kind: Any, *, strict: bool) -> tuple[str, list[str]]:
    """msgspec's message and the steps to the place; msgspec writes ``[...]`` for any key of a mapping, so the key is looked for."""
    problem, _, where = str(error).partition(" - at `")
    steps = re.findall(r"\[[^\]]*\]|[^.\[\]$`]+", where.rstrip("`"))
    while "[...]" in steps:
        position = steps.index("[...]")
        for key in _at(value, steps[:position]):
            try:
                msgspec.convert(_only(value, steps[:position], key), kind, strict=strict)
            except msgspec.ValidationError as again:
                if str(again) == str(error):
                    steps[position] = str(key)
                    break
        else:
            break
    return problem, steps


def _at(value: Any, steps: list[str]) -> Any:
    for step in steps:
        value = value[int(step[1:-1])] if step.startswith("[") else value[step]
    return value


def _only(value: Any, steps: list[str], key: Any) -> Any:
    """`value` with the mapping at `steps` cut down to `key`."""
    if not steps:
        return {key: value[key]}
    step: Any = int(steps[0][1:-1]) if steps[0].startswith("[") else steps[0]
    inner = _only(value[step], steps[1:], key)
    return [inner if i == step else item for i, item in enumerate(value)] if isinstance(value, list) else {**value, step: inner}


def _with_hint(problem: str, value: Any, steps: list[str], kind: Any) -> str:
    """Add what is known there to msgspec's "unknown field" and "invalid value"."""
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem)
    if unknown:
        known = _fields_at(kind, steps, value)
        near = difflib.get_close_matches(unknown[1], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}" if known else ""
        return f"unknown key {unknown[1]!r}" + (f"; {hint}" if hint else "")
    if problem.startswith("Invalid value") and steps and steps[-1] == "kind":
        problem += "; known: " + ", ".join(sorted(_KINDS))
    return problem[:1].lower() + problem[1:]


def _fields_at(kind: Any, steps: list[str], value: Any) -> list[str]:
    """Names of the fields of the type that `steps` lead to; empty when they lead nowhere certain."""
    info = msgspec.inspect.type_info(kind)
    for raw_step in [*steps, None]:
        step = raw_step.strip("[]") if raw_step is not None else None
        if isinstance(info, msgspec.inspect.Metadata):  # a field with a description
            info = info.type
        if isinstance(info, msgspec.inspect.UnionType):
            tag = value.get("kind") if isinstance(value, dict) else None
            structs = [t for t in info.types if isinstance(t, msgspec.inspect.StructType)]
            found = [t for t in structs if tag is None or t.tag == tag]
            if not found:
                return []
            info = found[0]
        if step is None:
            break
        value = value.get(step) if isinstance(value, dict) else value[int(step)] if isinstance(value, list) else None
        if isinstance(info, msgspec.inspect.StructType):
            fields = {field.encode_name: field.type for field in info.fields}
            if step not in fields:
                return []
            info = fields[step]
        elif isinstance(info, msgspec.inspect.DictType):
            info = info.value_type
        elif isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            info = info.item_type
        else:
            return []
    if not isinstance(info, msgspec.inspect.StructType):
        return []
    tag_field = [info.tag_field] if info.tag_field else []
    return tag_field + [f.encode_name for f in info.fields if (info.cls, f.encode_name) != (Settings, "folder")]


def _check_whole(settings: Settings, file: str) -> None:
    """What no single field shows: names that must exist, prefixes, cycles of fallbacks."""
    if not settings.routes:
        raise ConfigError(file, "routes", "at least one route is needed")
    seen: set[str] = set()
    for i, route in enumerate(settings.routes):
        if route.upstream not in settings.upstreams:
            raise ConfigError(file, f"routes[{i}].upstream", _unknown(route.upstream, settings.upstreams))
        if route.prefix and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", route.prefix):
            raise ConfigError(
                file, f"routes[{i}].prefix", f"expected '' or a path like /rag without a slash at its end, got {route.prefix!r}"
            )
        if any(route.prefix == p or route.prefix.startswith(p + "/") for p in _RESERVED_PREFIXES):
            raise ConfigError(file, f"routes[{i}].prefix", f"{route.prefix!r} is one of the server's own paths")
        check_passthrough(route.passthrough, file, f"routes[{i}].passthrough")
        if route.prefix in seen:
            raise ConfigError(file, f"routes[{i}].prefix", f"{route.prefix!r} is taken by an earlier route")
        seen.add(route.prefix)
    for name, upstream in settings.upstreams.items():
        for other in upstream.fallback:
            if other not in settings.upstreams:
                raise ConfigError(file, f"upstreams.{name}.fallback", _unknown(other, settings.upstreams))
            if other == name:
                raise ConfigError(file, f"upstreams.{name}.fallback", "an upstream cannot be its own fallback")
        if isinstance(upstream, OpenAISettings) and not re.match(r"https?://[^/]", upstream.base_url):
            raise ConfigError(file, f"upstreams.{name}.base_url", f"expected http://… or https://…, got {upstream.base_url!r}")
    without_key = forwarding(settings)
    if settings.keys and without_key:
        problem = "forward cannot go with keys: a client's Authorization is then Groundwire's own key and must not leave"
        raise ConfigError(file, f"upstreams.{without_key[0]}.api_key", problem)
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, LiteLLMSettings) and upstream.api_key not in ("", "forward") and not upstream.model_prefix:
            problem = "is needed beside an api_key (as anthropic/): without it a client could choose the provider that gets the key"
            raise ConfigError(file, f"upstreams.{name}.model_prefix", problem)
        if isinstance(upstream, LiteLLMSettings) and not upstream.model_prefix and not upstream.models:
            problem = "is needed, or a list of models: else a client could choose any provider whose key lies in the environment"
            raise ConfigError(file, f"upstreams.{name}.model_prefix", problem)
    check_models(settings.embeddings, file)
    names = [key.name for key in settings.keys]
    for i, key in enumerate(settings.keys):
        if names.index(key.name) != i:
            raise ConfigError(file, f"keys[{i}].name", f"{key.name!r} stands here twice")
        if key.name.endswith(SHADOW):
            raise ConfigError(file, f"keys[{i}].name", f"{SHADOW} ends the names under which shadow mode keeps what it learns")
        for prefix in key.routes:
            if prefix not in seen:
                raise ConfigError(file, f"keys[{i}].routes", f"no route has the prefix {prefix!r}")


def spends(settings: Settings, name: str) -> bool:
    """Whether calls of the upstream `name`, or of one that stands in for it, are paid for with a key of the operator's."""
    upstream = settings.upstreams[name]
    if isinstance(upstream, OpenAISettings):
        own = upstream.api_key not in ("", "forward") or bool(upstream.headers)
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
    return [name for name, u in settings.upstreams.items() if not isinstance(u, EmbeddedSettings) and u.api_key == "forward"]


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    return f"{name!r} is not one of: {', '.join(sorted(known)) or '(none)'}"
