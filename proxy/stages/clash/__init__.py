"""Contradictions in the context: `stage` is the policy's stage.

`context` reads what the conversation states, `finding` has the pairs that are new judged (`proxy.grounding.clashes`), `ledger` holds them
against what was decided before, `asking` puts questions and finds them, with the user's replies, in the history, `resolution` decides,
`acting` turns decisions into edits and notes, `reporting` writes the record. `proxy.clash` is the same as a library.
"""

from proxy.stages.clash.options import ClashOptions
from proxy.stages.clash.stage import Clash

__all__ = ["Clash", "ClashOptions"]
