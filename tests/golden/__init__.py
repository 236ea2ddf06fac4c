"""Golden exchanges: what goes in and out of the proxy, to the byte, one file a case. Read `tests/golden/README.md` first."""
