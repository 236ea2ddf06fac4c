"""The stage `work_claims`: does an agent's account of its work agree with what its tools returned?"""

from proxy.stages.work_claims.stage import WorkClaims

__all__ = ["WorkClaims"]
