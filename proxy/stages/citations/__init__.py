"""What an answer cites: `stage` is the policy's stage, `reading` finds the statements and their citations."""

from proxy.stages.citations.options import CitationsOptions
from proxy.stages.citations.stage import Citations

__all__ = ["Citations", "CitationsOptions"]
