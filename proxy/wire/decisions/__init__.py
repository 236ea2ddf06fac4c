"""Decision models on the wire: typed questions over one state, a probability for every possible answer.

Three shapes of the same meaning (`proxy.ports.decisions`), each read and written as a client of it (`asked`) and, but for Google's, as its
server (`served`):

- `openai`: ``POST /v1/decisions``, https://platform.openai.com/docs/api-reference/decisions
- `systemone`: ``POST /v1/systemone``, https://docs.typesafe.ai/api, which most servers of open models speak
- `gemini`: Google's ``POST /v1beta/decisions``, System One's questions over an ``input``

``confidence`` is read nowhere: it has a meaning of its own at every provider.
"""
