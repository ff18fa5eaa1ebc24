"""The quickstart runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import pytest

from tests.notebooks.execute import execute


@pytest.mark.filterwarnings("ignore")  # the kernel's machinery warns about itself
def test_quickstart_runs_and_shows_what_it_says():
    outputs = execute("quickstart.ipynb")
    values = [out["data"]["text/plain"] for out in outputs if out.output_type == "execute_result"]
    printed = "".join(out["text"] for out in outputs if out.output_type == "stream")
    assert "topic='orders'" in values[-2]
    assert values[-1] == "(0, 100)"
    assert "customer-0" in printed
    assert "total: integer" in printed
