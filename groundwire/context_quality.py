"""Facts checked and context validated, with the built-in models and without a proxy."""

from proxy.context_quality import ChecksOneFact, ContextQualityValidator, FactChecker, FactVerdict

__all__ = [
    "ChecksOneFact",
    "ContextQualityValidator",
    "FactChecker",
    "FactVerdict",
]
