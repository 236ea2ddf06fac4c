"""An agent's failures: from the steps of its conversation to what it is told.

`steps` reads a conversation, `history` says what happened to failures in it, `selection` and `guidance` bring records back into a prompt,
`adjustments` and `overrides` say what to do instead, `escalation` and `questions` when to stop. Pure functions over plain values; the
records are `proxy.ports.failures`'s, kept by `proxy.store.failures`.
"""
