"""Contradictions in the context: `stage` is the policy's stage.

`context` reads what the conversation states, `finding` has the pairs that are new judged (`proxy.grounding.clashes`), `ledger` holds them
against what was decided before, `dialogue` finds the proxy's questions and the user's replies in the history (`asking`), `resolution`,
`merging` and `removing` turn decisions into edits, `reporting` writes the record. `proxy.clash` is the same as a library.
"""

from proxy.stages.clash.options import ClashOptions
from proxy.stages.clash.stage import Clash

__all__ = ["Clash", "ClashOptions"]
