"""Answers against the forms they were asked for: `stage` is the policy's stage, `rules` has its options, judges and mends one answer,
`report` writes the verdict and what the model is told when it is asked again.
"""

from proxy.stages.schema.rules import SchemaOptions
from proxy.stages.schema.stage import Schema

__all__ = ["Schema", "SchemaOptions"]
