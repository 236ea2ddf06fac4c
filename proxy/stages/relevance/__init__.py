"""The relevance guard: `stage` is the policy's stage, `judge` asks an LLM; the calibrated probability is `proxy.grounding.relevance`'s."""

from proxy.stages.relevance.stage import Relevance, RelevanceOptions

__all__ = ["Relevance", "RelevanceOptions"]
