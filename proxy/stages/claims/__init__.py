"""The claims of an answer against its context, by phase: `reading` finds what it states, `judging` what the evidence says to it, `acting`
changes the answer or asks for a better one, `reporting` says what was found. `stage` is the policy's stage, which goes through them.
"""

from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.stage import Claims

__all__ = ["Claims", "ClaimsOptions"]
