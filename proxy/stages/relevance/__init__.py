"""The relevance guard: `stage` is the policy's stage; the calibrated probability is `proxy.grounding.relevance_scoring`'s."""

from proxy.stages.relevance.stage import Relevance, RelevanceOptions

__all__ = ["Relevance", "RelevanceOptions"]
