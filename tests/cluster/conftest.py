"""One cluster for the scenarios, as it takes seconds to start; skipped, with the reason, where its servers cannot be had."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from proxy.testing import ScriptedUpstream
from tests.cluster.cluster import ADMIN_KEY, KEY, Cluster, cluster
from tests.cluster.engines import NoEngine
from tests.cluster.upstream import provider
from tests.store.postgres import NoServer

SMALL = "models: {small: {window: 4000, max_output_tokens: 500, encoding: o200k_base}}\n"


@dataclass
class Running:
    """A cluster, the provider that it calls, and sessions of a client and of the operator."""

    cluster: Cluster
    upstream: ScriptedUpstream
    client: aiohttp.ClientSession
    operator: aiohttp.ClientSession


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Nothing may be left of it afterwards but what each scenario made under its own names."""
    async with provider() as upstream:
        starting = cluster(tmp_path_factory.mktemp("cluster"), upstream.base_url, settings=SMALL)
        try:
            found = await starting.__aenter__()
        except (NoEngine, NoServer) as error:
            pytest.skip(f"no cluster here: {error}")
        try:
            client = aiohttp.ClientSession(headers={"authorization": f"Bearer {KEY}"})
            operator = aiohttp.ClientSession(headers={"authorization": f"Bearer {ADMIN_KEY}"})
            async with client, operator:
                yield Running(found, upstream, client, operator)
        finally:
            await starting.__aexit__(None, None, None)
