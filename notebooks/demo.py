"""Execute the first notebook in this environment, print what it shows, and end what it started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import papermill

HERE = Path(__file__).parent
LOAM = [sys.executable, "-m", "loam_lab.cli"]


def main() -> int:
    """Run the notebook; exit status 1 if a cell fails."""
    executed = HERE / "out" / "01_first_run.ipynb"
    executed.parent.mkdir(exist_ok=True)
    try:
        papermill.execute_notebook(
            HERE / "01_first_run.ipynb", executed, kernel_name="python3", cwd=HERE, progress_bar=False
        )
        failed = False
    except papermill.PapermillExecutionError as error:
        print(error, file=sys.stderr)
        failed = True
    finally:
        subprocess.run([*LOAM, "down", "--force"], check=False, stdout=subprocess.DEVNULL)
    show(nbformat.read(executed, as_version=4))
    print(f"\nThe executed notebook: {executed.relative_to(HERE.parent)}. Look around in it with: make lab")
    return int(failed)


def show(notebook: nbformat.NotebookNode) -> None:
    """Print the cells as a reader sees them: text, code, results."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            print(f"\n{cell.source}\n")
            continue
        print("\n".join(f"    {line}" for line in cell.source.splitlines()))
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            if output.output_type == "error":
                text = f"{output.ename}: {output.evalue}"
            print("\n" + "".join(text).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main())
