"""The APIs that scenarios run over."""

from __future__ import annotations

import pytest

from tests.apis import APIS, Api


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    """A module whose scenarios use it runs them over every API."""
    return APIS[request.param]
