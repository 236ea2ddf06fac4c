"""How long each wait on a connection may take."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class Limits:
    """Seconds."""

    connect_s: float
    first_byte_s: float
    """From the request being sent to the answer's head."""
    between_s: float
    """From one piece of the answer to the next."""
    idle_s: float = 75.0
    """How long a connection is kept for another request."""
    max_age_s: float = 300.0
    """After which it gets no other request, so that a change of DNS is followed."""
    tick_s: float = field(init=False)
    """The shortest that may be waited for once a connection is there."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tick_s", min(self.first_byte_s, self.between_s, self.idle_s))
