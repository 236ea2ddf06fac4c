"""Groundwire's public names. What stands here stays from release to release; the package `proxy` behind it may change.

    from groundwire.faithful import wrap_with_context_faithful_prompt
    from groundwire.clash import detect_clash
    from groundwire.context_quality import ContextQualityValidator, FactChecker
    from groundwire.stage import Stage, StageOptions, Verdict
    from groundwire.testing import ScriptedUpstream, make_exchange
    from groundwire.verifier import ClaimPair, Support
    from groundwire.server import App, load_settings

A module is loaded when it is named: `import groundwire` alone loads nothing heavy.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from proxy import __version__

__all__ = ["__version__", "clash", "context_quality", "faithful", "server", "stage", "testing", "verifier"]


def __getattr__(name: str) -> ModuleType:
    """``groundwire.faithful`` without an import of its own."""
    if name in __all__:
        return importlib.import_module(f"groundwire.{name}")
    raise AttributeError(f"module 'groundwire' has no attribute {name!r}")
