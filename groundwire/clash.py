"""Contradictions in a conversation: `detect_clash` finds them, `resolve_clash` says what is to be done about one."""

from proxy.clash import detect_clash, resolve_clash
from proxy.grounding.clashes.kinds import Resolution, StatementClash

__all__ = [
    "Resolution",
    "StatementClash",
    "detect_clash",
    "resolve_clash",
]
