"""Written by ``python -m training.relevance``; edit that instead.

Data: the training half of XQuAD (en, de, es; cut by article) and ClapNQ (cut by title), 1090 questions, SHA-256 of their ids
78cefd4997e0022f. Embedding model: use-multilingual-3.
"""

SAME_LANGUAGE = (9.276, 4.863, -4.136)
"""Cosine, coverage, intercept of a window in the question's language."""
OTHER_LANGUAGE = (12.856, 3.621, -3.524)
"""The same of a window in another language."""
CONTEXT_SLOPE = 1.161
"""Of the best window's logit."""
CONTEXT_LOG_WINDOWS = -0.157
"""Of the natural logarithm of the number of windows."""
CONTEXT_INTERCEPT = -0.38
