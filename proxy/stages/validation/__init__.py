"""The stage `validation`: `stage` runs it, `options` is what a policy says, `turns` finds what is new, `acting` does what follows from a
quality, `reporting` puts it into the record. The metrics are `proxy.stages.validation.metrics`'s.
"""

from proxy.stages.validation.options import ValidationOptions
from proxy.stages.validation.stage import Validation

__all__ = ["Validation", "ValidationOptions"]
