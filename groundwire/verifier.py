"""A verifier of one's own: what judges whether a claim follows from evidence, in place of the built-in model (`groundwire.server.App`)."""

from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import Verifier, Verifiers

__all__ = [
    "ClaimPair",
    "Support",
    "Verifier",
    "Verifiers",
]
