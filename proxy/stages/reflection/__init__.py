"""The stage `reflection`: an agent's failures are remembered, and used where they help."""

from proxy.stages.reflection.stage import Reflection

__all__ = ["Reflection"]
