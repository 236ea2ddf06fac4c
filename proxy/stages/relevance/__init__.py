"""The relevance guard: `stage` is the policy's stage, `question` finds what is asked, `scoring` and `lexical` compute a calibrated
probability with `coefficients` that ``python -m training.relevance`` makes, `judge` asks an LLM.
"""

from proxy.stages.relevance.stage import Relevance, RelevanceOptions

__all__ = ["Relevance", "RelevanceOptions"]
