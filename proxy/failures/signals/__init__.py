"""One module a group of signals: a conversation, an answer or a verdict in, `proxy.failures.kinds.Failure`s out."""
