"""Text -> vectors: the built-in model (`use`), any of sentence-transformers, and the batching and caching around them (`embedder`)."""
