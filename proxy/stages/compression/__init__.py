"""Compression: a prompt that nears the window is brought back to a target. `stage` is the shell, a strategy has a file of its own."""

from proxy.stages.compression.options import CompressionOptions
from proxy.stages.compression.stage import Compression

__all__ = ["Compression", "CompressionOptions"]
