"""The local model of configurations that are checked here loads; tests that start its process carry the mark `process`."""

import pytest

from proxy.upstreams.embedded import EmbeddedUpstream


@pytest.fixture(autouse=True)
def _loads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    async def probe(upstream: EmbeddedUpstream) -> None:
        """Nothing is started."""

    if request.node.get_closest_marker("process") is None:
        monkeypatch.setattr(EmbeddedUpstream, "probe", probe)
