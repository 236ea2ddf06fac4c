"""Context-faithful prompting: asks a model to answer from its context, and reads what it cites and how sure it says it is."""

from proxy.faithful import *  # noqa: F403 - the names are listed there
from proxy.faithful import __all__ as __all__
