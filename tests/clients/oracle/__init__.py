"""Client libraries as oracles: what they show their user of an answer, held against what the proxy's check was given to read.

`words` makes words that are found again, `right` the answers that an API gives, `changes`, `streams` and `generate` other shapes of them;
`house` runs the proxy, its upstream and the clients; `judge` says what was shown and not read. Used by `tests.clients.test_oracle` and by
``python -m tests.fuzz --target clients``.
"""
