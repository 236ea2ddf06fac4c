"""For tests of a stage or of an agent: a scripted upstream, a server, exchanges and ports in memory."""

from proxy.testing import ScriptedReply, ScriptedUpstream, completion, make_exchange, make_ports, reply, serving, stream, streamed

__all__ = [
    "ScriptedReply",
    "ScriptedUpstream",
    "completion",
    "make_exchange",
    "make_ports",
    "reply",
    "serving",
    "stream",
    "streamed",
]
