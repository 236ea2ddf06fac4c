"""``python -m groundwire`` is the command."""

import sys

from proxy.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
