"""One shape of an upstream's answer, and who asks for it how; as text for the corpus of ``python -m tests.fuzz``."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.config.settings import Api

APIS: tuple[Api, ...] = ("chat", "responses", "messages")
DELIVERIES = ("hold", "gate")


@dataclass(slots=True, frozen=True)
class Shape:
    """An answer on the wire."""

    client: Api
    """The client's API."""
    server: Api
    """The upstream's API."""
    streamed: bool
    """Whether the client asks for a stream."""
    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    """Instead of, or beside, those of a usual answer."""
    choices: int = 1
    """How many the client asks for."""
    tools: int = 0
    """What it offers: nothing, the tool `right.TOOL`, or tools of every kind that its API has."""
    delivery: str = "hold"
    changes: tuple[str, ...] = field(default=(), compare=False)
    """What was done to a right answer, for people."""

    def encode(self) -> bytes:
        """A head of lines, an empty line, the body."""
        facts = {
            "client": self.client,
            "server": self.server,
            "streamed": int(self.streamed),
            "status": self.status,
            "choices": self.choices,
            "tools": self.tools,
            "delivery": self.delivery,
        }
        lines = [" ".join(f"{name}={value}" for name, value in facts.items()), *(f"{name}: {value}" for name, value in self.headers)]
        return "\n".join(lines).encode("latin-1") + b"\n\n" + self.body


def decoded(data: bytes) -> Shape:
    """Raises `ValueError` for what is none."""
    head, found, body = data.partition(b"\n\n")
    if not found:
        raise ValueError("no empty line")
    first, *lines = head.decode("latin-1").split("\n")
    facts = dict(pair.split("=", 1) for pair in first.split(" "))
    headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
    known = {"client": APIS, "server": APIS, "delivery": DELIVERIES}
    if any(facts.get(name) not in values for name, values in known.items()) or not 200 <= int(facts.get("status", 0)) <= 999:
        raise ValueError("no shape")
    return Shape(
        client=facts["client"],  # type: ignore[arg-type]
        server=facts["server"],  # type: ignore[arg-type]
        streamed=facts["streamed"] == "1",
        body=body,
        status=int(facts["status"]),
        headers=headers,
        choices=int(facts["choices"]),
        tools=int(facts["tools"]),
        delivery=facts["delivery"],
    )
