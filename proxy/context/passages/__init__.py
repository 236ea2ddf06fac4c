"""Retrieved passages in a conversation, and how they are written into a prompt. Pure functions.

`finding` looks through messages and tool results, `blocks` knows the marked blocks of common RAG templates, `context_block` is the
block that Groundwire itself writes, and reads again exactly as it was.
"""

from proxy.context.passages.finding import (
    RETRIEVAL_TOOLS,
    absent_passages,
    find_passages,
    is_retrieval_tool,
    passages_of,
    result_passages,
    retrieval_results,
)

__all__ = [
    "RETRIEVAL_TOOLS",
    "absent_passages",
    "find_passages",
    "is_retrieval_tool",
    "passages_of",
    "result_passages",
    "retrieval_results",
]
