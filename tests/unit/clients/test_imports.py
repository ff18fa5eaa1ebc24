"""What clients and Spark's workers wait for when they start."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["sparklog", "sparklog.spark.data_source"])
def test_import_of_client_leaves_out_what_few_need(module: str) -> None:
    code = (
        f"import sys, {module} as m; getattr(m, 'connect', None); "
        "print([name for name in ('pyarrow.dataset', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
