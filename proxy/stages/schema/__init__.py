"""Answers against the forms they were asked for: `stage` is the policy's stage, `checking` judges and mends one answer, `asking` says what
the model is told when it is asked again, `reporting` writes the verdict.
"""

from proxy.stages.schema.options import SchemaOptions
from proxy.stages.schema.stage import Schema

__all__ = ["Schema", "SchemaOptions"]
