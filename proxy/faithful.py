"""Context-faithful prompting as a library: the public names of `proxy.context.faithful`."""

from proxy.context.faithful import (
    CONTEXT_FAITHFUL_RAG_TEMPLATE as CONTEXT_FAITHFUL_RAG_TEMPLATE,
)
from proxy.context.faithful import (
    CONTEXT_FAITHFUL_SYSTEM_SUFFIX as CONTEXT_FAITHFUL_SYSTEM_SUFFIX,
)
from proxy.context.faithful import (
    CONTEXT_FAITHFUL_USER_PREFIX as CONTEXT_FAITHFUL_USER_PREFIX,
)
from proxy.context.faithful import (
    LANGUAGES as LANGUAGES,
)
from proxy.context.faithful import (
    MAX_RANGE as MAX_RANGE,
)
from proxy.context.faithful import (
    SOURCE_LABEL as SOURCE_LABEL,
)
from proxy.context.faithful import (
    SUBSTANTIVE_CHARS as SUBSTANTIVE_CHARS,
)
from proxy.context.faithful import (
    Passage as Passage,
)
from proxy.context.faithful import (
    admits_ignorance as admits_ignorance,
)
from proxy.context.faithful import (
    build_context_block as build_context_block,
)
from proxy.context.faithful import (
    detect_context_ignoring as detect_context_ignoring,
)
from proxy.context.faithful import (
    extract_citations as extract_citations,
)
from proxy.context.faithful import (
    extract_confidence as extract_confidence,
)
from proxy.context.faithful import (
    readable as readable,
)
from proxy.context.faithful import (
    texts as texts,
)
from proxy.context.faithful import (
    wrap_with_context_faithful_prompt as wrap_with_context_faithful_prompt,
)
