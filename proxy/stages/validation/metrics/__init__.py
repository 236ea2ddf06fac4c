"""Is a piece of context good enough to rest on? Five metrics, each 0 to 1, an overall score, and the reasons where it is not.

`content` reads what is given, `metrics` holds the figures and what follows from them, `freshness` and `completeness` are worked out from
the content alone. `relevance`, `accuracy` and `consistency` ask the embedder, the fact checker and the verifier; `validator` runs it all
for many pieces at once. `proxy.context_quality` is the same with the built-in models, as a library; the stage `validation` uses it for
what is new in a conversation.
"""
