"""Who answers behind an upstream, in the words of the GenAI semantic conventions: ``gen_ai.provider.name``, ``server.address``."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from proxy.config.settings import AnthropicSettings, BuiltinSettings, LiteLLMSettings, OpenAISettings, UpstreamSettings

_BY_HOST = (
    (".openai.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    (".amazonaws.com", "aws.bedrock"),
    ("api.anthropic.com", "anthropic"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
)
"""Ends of host names; every other OpenAI-compatible server speaks OpenAI's form, which is what the attribute tells."""
_BY_PREFIX = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""litellm's names where the conventions have another."""


class ProviderServer(Struct, frozen=True):
    """An upstream as spans describe it."""

    provider: str
    address: str = ""
    port: int | None = None


def server_of(settings: UpstreamSettings) -> ProviderServer:
    """What `settings` say of the server behind an upstream."""
    if isinstance(settings, OpenAISettings):
        host, port = _place(settings.base_url)
        spoken = "anthropic" if isinstance(settings, AnthropicSettings) else "openai"
        return ProviderServer(next((name for end, name in _BY_HOST if host.endswith(end)), spoken), host, port)
    if isinstance(settings, LiteLLMSettings):
        prefix = settings.model_prefix.partition("/")[0]
        return ProviderServer(_BY_PREFIX.get(prefix, prefix or "litellm"), *_place(settings.base_url))
    return ProviderServer("groundwire" if isinstance(settings, BuiltinSettings) else "llama_cpp")


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    if not parts.hostname:
        return "", None
    try:
        port = parts.port
    except ValueError:
        port = None
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)
