"""Google's ``generateContent``: requests, answers and errors of the Gemini API, for `proxy.wire.dialect`."""
