"""Which extra of the package brings a library that a part of the configuration needs."""

from __future__ import annotations

import importlib.util


def missing(library: str, module: str, extra: str) -> str:
    """What is wrong where `module` is not installed, with the command that installs it; "" where it is there. Nothing is imported."""
    return "" if installed(module) else f"needs {library}, which is not installed: pip install 'groundwire[{extra}]'"


def installed(module: str) -> bool:
    """Whether a module, as ``a.b``, can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
