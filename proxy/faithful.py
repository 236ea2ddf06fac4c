"""Context-faithful prompting as a library: the public names of `proxy.context.faithful`."""

from proxy.context.faithful import *  # noqa: F403 - the names are listed there
from proxy.context.faithful import __all__ as __all__
