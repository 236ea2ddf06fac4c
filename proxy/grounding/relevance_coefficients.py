"""Written by ``python -m training.relevance``; edit that instead.

Data: the training half of `benchmarks.relevance_data`, 2434 questions, SHA-256 of their ids
4beac862f17f0d93. Embedding model: use-multilingual-3.
"""

SAME_LANGUAGE = (14.183, 5.291, -1.846, 5.27, -1.015)
"""Cosine, coverage, logarithm of the question's words, structure, intercept, of a window in the question's language."""
OTHER_LANGUAGE = (18.106, 4.041, -1.615, -0.992, -1.277)
"""The same of a window in another language."""
CONTEXT_SLOPE = 0.918
"""Of the best window's logit."""
CONTEXT_LOG_WINDOWS = -0.467
"""Of the natural logarithm of the number of windows."""
CONTEXT_INTERCEPT = -0.181
