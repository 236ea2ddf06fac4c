"""What an answer cites: `stage` is the policy's stage, `reading` finds the statements and their citations."""

from proxy.stages.citations.stage import Citations, CitationsOptions

__all__ = ["Citations", "CitationsOptions"]
