"""`%%loam spark --detach`: hand the cell's code to a worker, and say at once which run it is.

The rule kept here: what would fail for a reason that can be known now is refused now, with the line and the way out.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from IPython.display import display

from loam_lab.cli import submission
from loam_lab.engines import cellnames, whose
from loam_lab.errors import Invalid
from loam_lab.lab import cells
from loam_lab.lab.carry import carry
from loam_lab.lab.kernel import Kernel
from loam_lab.lab.views import RunView, run_bundle
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


def submit(shell: Any, kernel: Kernel, line: str, body: str) -> None:
    """Submit the cell and display its run.

    Raises:
        Invalid: it is refused; nothing was submitted. UsageError: an option is wrong. Unavailable: no server.
    """
    asked = cells.parse_detached(line)
    spec = spec_of(shell, asked, body)
    [run_id] = kernel.jobs.enqueue(api.EnqueueRequest(jobs=[spec])).job_ids
    found = kernel.jobs.get(api.GetRequest(job_id=run_id)).job or pb.Job()
    state = "scheduled" if spec.run_at_ms else "queued"
    when = f" at {submission.when_words(spec.run_at_ms)}" if spec.run_at_ms else ""
    view = RunView(
        run_id=run_id,
        name=found.task.name if found.task else "",
        state=state,
        elapsed_ms=0,
        about=(f"runs in a worker{when}, whatever becomes of this notebook. Follow it: %loam run watch {run_id[:13]}",),
    )
    display(run_bundle(view), raw=True)


def spec_of(shell: Any, asked: cells.Detached, body: str) -> pb.JobSpec:
    """The job of a cell, with what it takes along from the notebook."""
    checked = submission.checked(asked.options)
    source = "\n" + body  # the first line was the magic's: lines are counted as the notebook does
    transform = shell.input_transformer_manager.transform_cell
    code = cellnames.transformed(source, transform)
    for problem in cellnames.check(code):
        raise Invalid(f"line {problem.line}: {problem.message}. Nothing was submitted", field="source")
    if not body.strip():
        raise Invalid("the cell is empty: there is nothing to run", field="source")
    needed = cellnames.names(code, transform)
    taken = carry(needed, asked.inputs, shell.user_ns)
    for name in asked.options.outputs:
        if name not in needed.made and name not in asked.inputs and not needed.is_believed:
            raise Invalid(f"-o {name}: the cell makes no {name}", field="-o")
    place = whose.place(sys.executable, sys.path)
    whose.check(sys.executable, place["cwd"])
    payload = {
        "kind": "cell",
        "language": "python",
        "source": source,
        "sha256": hashlib.sha256(body.encode("utf-8", "replace")).hexdigest(),
        **place,
        "imports": list(taken.imports),
        "inputs": dict(taken.inputs),
        "rows": asked.rows,
    }
    spec = checked.job("spark", asked.options.name or cells.name_of(body), payload)
    # Not in the payload: the same cell under the same key is the same run, wherever it stands.
    spec.headers.update({"cell": _cell_id(shell) or "-", "execution-count": str(shell.execution_count)})
    return spec


def _cell_id(shell: Any) -> str | None:
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    found: str | None = (parent or {}).get("metadata", {}).get("cellId")
    return found
