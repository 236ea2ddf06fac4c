"""The stage `validation`: is what enters the context good enough to rest on? Five metrics, each 0 to 1, a score, and the reasons.

`stage` runs it for what is new in a conversation, and `report` says what becomes of it; `proxy.context_quality` is the same as a library.
"""

from proxy.stages.validation.quality import ValidationOptions
from proxy.stages.validation.stage import Validation

__all__ = ["Validation", "ValidationOptions"]
