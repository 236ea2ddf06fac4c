"""The claims of an answer against its context: `stage` is the policy's stage, `reading` finds what an answer states (`arguments` the
same for tool calls), `checks` is what is kept of one exchange while it lasts, `changing` (with `acting`) changes the answer, `retrying`
asks for a better one, `verdicts` and `reporting` say what was found.
"""

from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.stage import Claims

__all__ = ["Claims", "ClaimsOptions"]
