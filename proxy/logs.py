"""How the log looks: one line an event, on standard error, the same in every worker process."""

from __future__ import annotations

import logging
import os

LEVEL_VARIABLE = "GROUNDWIRE_LOG_LEVEL"


def configure(level: str | None = None) -> None:
    """Send the log to standard error from `level` on; without one, as the process that started this one does."""
    level = os.environ.setdefault(LEVEL_VARIABLE, level or "info")
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for chatty in ("uvicorn.error", "faiss.loader"):  # the latter reports every build of itself that is not there
        logging.getLogger(chatty).setLevel(logging.WARNING)
