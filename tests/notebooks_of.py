"""Notebooks for tests, from the text of their cells."""

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook_of(*cells: str, parameters: str = "", kernel: dict | None = KERNEL) -> str:
    """The text of a notebook; `parameters` is the source of its parameters cell."""
    first = [new_code_cell(parameters, metadata={"tags": ["parameters"]})] if parameters else []
    rest = [new_markdown_cell(cell[3:]) if cell.startswith("md:") else new_code_cell(cell) for cell in cells]
    metadata = {"kernelspec": kernel} if kernel else {}
    return nbformat.writes(new_notebook(cells=[*first, *rest], metadata=metadata))
