"""One module a group of signals: a conversation, an answer or a verdict in, `proxy.ports.failure_kinds.Failure`s out."""
