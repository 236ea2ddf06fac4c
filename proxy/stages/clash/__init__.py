"""Contradictions in the context: `stage` is the policy's stage, `context` reads what the conversation states, `finding` judges the pairs
that are new, `ledger` holds them against what was decided before, `dialogue` finds the proxy's questions and the user's replies in the
history, `removing` turns decisions into edits, `reporting` writes the record.
"""

from proxy.stages.clash.options import ClashOptions
from proxy.stages.clash.stage import Clash

__all__ = ["Clash", "ClashOptions"]
