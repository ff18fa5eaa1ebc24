"""Run a notebook in a kernel of its own, as a reader of it would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELL_SECONDS_MAX = 240


def execute(name: str) -> list[Any]:
    """The outputs of all its code cells, in order; an error in a cell is raised."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=CELL_SECONDS_MAX, kernel_name="python3").execute()
    return [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
