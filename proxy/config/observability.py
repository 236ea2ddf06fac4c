"""The sections of config.yaml that say what an operator sees of the running server: ``logging:`` and ``tracing:``."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from proxy.config.models import Section
from proxy.errors import ConfigError

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Where OpenTelemetry's exporters send spans to when nothing else is said; to the second they add ``/v1/traces``."""


class LoggingSettings(Section, frozen=True, kw_only=True):
    """``logging:``; `groundwire serve`'s own options win over it."""

    format: LogFormat = "console"
    """Lines for a person, or one JSON object a line."""
    level: LogLevel = "info"
    """From ``info`` on there is a line for every exchange; ``warning`` keeps those that went wrong."""


class TracingSettings(Section, frozen=True, kw_only=True):
    """``tracing:``; without it no spans are made and nothing of OpenTelemetry is imported."""

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
    timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    """For one batch of spans, with its retries; what cannot be delivered in that time is dropped."""


def check_tracing(tracing: TracingSettings | None, file: str, environ: Mapping[str, str]) -> None:
    """What no single field shows. Raises `ConfigError`."""
    if tracing is None or not tracing.enabled:
        return
    if not _installed("opentelemetry.sdk") or not _installed("opentelemetry.exporter.otlp.proto.http"):
        raise ConfigError(file, "tracing", "needs OpenTelemetry, which is not installed: pip install 'groundwire[tracing]'")
    if tracing.endpoint and not re.match(r"https?://[^/]", tracing.endpoint):
        raise ConfigError(file, "tracing.endpoint", f"expected http://… or https://…, got {tracing.endpoint!r}")
    if not tracing.endpoint and not any(environ.get(name) for name in ENDPOINT_VARIABLES):
        raise ConfigError(file, "tracing.endpoint", f"is needed, as http://127.0.0.1:4318/v1/traces; or set {ENDPOINT_VARIABLES[1]}")


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
