"""The notebook runs from its first cell to its last, and draws its plot."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks/consumer_groups.ipynb"


@pytest.mark.filterwarnings("ignore")  # the kernel's machinery warns about itself
def test_notebook_runs_and_plots_the_lag(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert outputs[-1]["data"]["text/plain"] == "0", "no lag is left"
