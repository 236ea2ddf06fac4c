"""Traces: what an exchange did and when, as OpenTelemetry spans. Off unless ``tracing:`` is configured.

`trace.py` follows an exchange from `proxy.server.handler`; `context.py` reads and writes the W3C headers that join traces over several
programs; `spans.py` turns an ended exchange into spans with the attributes of the GenAI semantic conventions; `export.py` hands them to the
OpenTelemetry SDK, the only file that imports it.
"""
