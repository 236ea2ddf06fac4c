"""Grounding as a library: what an answer claims, what the evidence says to it, and how the two are brought together.

Pure functions and plain values; `proxy.stages.claims`, `proxy.stages.citations` and `proxy.stages.confidence` are their stages,
`proxy.models.grounding` the model that judges one claim with its evidence.
"""
