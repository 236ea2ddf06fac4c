"""HTTP itself: ASGI moves, headers and their forwarding, bounds on what a client sends, and who the peer is."""
