"""Where files are kept that can be made again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """``GROUNDWIRE_CACHE``, else ``groundwire`` in the XDG cache folder (XDG Base Directory Specification 0.8)."""
    environ = os.environ if environ is None else environ
    if own := environ.get("GROUNDWIRE_CACHE"):
        return Path(own).expanduser()
    xdg = Path(environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "groundwire"
