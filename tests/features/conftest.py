"""The APIs that scenarios run over."""

from __future__ import annotations

import pytest

from tests.apis import APIS, Api


@pytest.fixture(params=[name if name == "chat" else pytest.param(name, marks=pytest.mark.slow) for name in APIS])
def api(request: pytest.FixtureRequest) -> Api:
    """A module whose scenarios use it runs them over every API; those but chat, whose readers have tests of their own, in the slow step."""
    return APIS[request.param]
