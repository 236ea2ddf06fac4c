"""h11, a reader of HTTP/1.1 that others wrote, as the judge of what an answer's bytes say."""

from dataclasses import dataclass

import h11


@dataclass(slots=True, frozen=True)
class Said:
    """By an answer to a POST, up to the connection's end."""

    status: int
    body: bytes
    behind: bool
    """Whether anything stands behind it, or its connection ends with it."""


def said(data: bytes) -> Said | None:
    """None where h11 takes it for no answer, or for none that is whole. Empty lines in front of it, or of an interim one, are no part of it (RFC 9112 section 2.2)."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**20)
    for event in (h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]), h11.EndOfMessage()):
        connection.send(event)
    status, body, ended = 0, b"", False
    connection.receive_data(data.lstrip(b"\r\n"))
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return None
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            behind = ended or bool(connection.trailing_data[0].strip(b"\r\n")) or connection.their_state is not h11.DONE
            return Said(status, body, behind)
        elif isinstance(event, h11.InformationalResponse):
            return said(connection.trailing_data[0])
        elif event is h11.NEED_DATA and not ended:
            ended = True
            connection.receive_data(b"")
        else:
            return None
