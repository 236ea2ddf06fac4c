"""How the interpreter of a worker process is set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOWN = (
    "from threadpoolctl import threadpool_info; print([pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas'])"
)
SET = "from proxy.offloop import one_thread_a_product; one_thread_a_product()"


@pytest.mark.process
@pytest.mark.parametrize("code", [f"{SET}; import numpy; {SHOWN}", f"import numpy; {SET}; {SHOWN}"], ids=["before numpy", "behind numpy"])
def test_products_take_one_thread(code: str) -> None:
    assert run(code) == "[1]"


@pytest.mark.process
def test_a_number_of_threads_that_somebody_set_stays() -> None:
    assert run(f"{SET}; import os; print(os.environ['OPENBLAS_NUM_THREADS'])", OPENBLAS_NUM_THREADS="2") == "2"


def run(code: str, **variables: str) -> str:
    given = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    return subprocess.run(
        [sys.executable, "-c", code], env={**given, **variables}, capture_output=True, text=True, check=True
    ).stdout.strip()
