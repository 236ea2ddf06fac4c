"""What went wrong in an agent's run: found in the traffic, kept as structured facts, told briefly where it helps.

`steps` reads a conversation; the modules of `signals` find failures in it; `fingerprint` tells one failure from another; `lifecycle` says
what becomes of a record; `selection` and `guidance` bring records back into a prompt; `escalation` says when to stop. Pure functions over
plain values: the stages `reflection` and `schema` call them, `proxy.store.failures` keeps the records.
"""
