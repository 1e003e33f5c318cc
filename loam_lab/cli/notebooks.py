"""Notebooks as jobs: what is sent to run one, and what comes back of it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from loam_lab.cli import submission
from loam_lab.connect import Jobs
from loam_lab.core import check
from loam_lab.errors import Conflict, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

SUFFIX = ".ipynb"
EXECUTED = "executed.ipynb"
SCHEDULED_AT = "loam.scheduled_at"


def notebook_spec(
    file: Path,
    params: dict[str, Any],
    *,
    name: str | None = None,
    kernel: str = "",
    cwd: Path | None = None,
    cell_timeout_s: float = 0.0,
) -> pb.JobSpec:
    """A notebook as a job: its cells as they are now, without the outputs of earlier runs.

    It runs in the folder of the file unless `cwd` says otherwise, with this interpreter's kernels.

    Raises:
        Invalid: the file, its kernel, a parameter or the folder is no good; says what to change.
    """
    from loam_lab.engines import notebook_file

    content = read(file)
    notebook = notebook_file.read(content, name=str(file))
    kernel = notebook_file.checked_kernel(notebook, kernel, name=str(file))
    if cell_timeout_s and not 0.1 <= cell_timeout_s <= 31_536_000:
        raise Invalid(
            f"--cell-timeout is {cell_timeout_s:g} s; it must be from 0.1, or 0 for no limit", field="timeout"
        )
    folder = (cwd or file.resolve().parent).resolve()
    if not folder.is_dir():
        raise Invalid(f"--cwd {str(folder)!r} is not a folder here", field="cwd")
    # The instant of a tick is known later; its form is checked then.
    later = {key: value for key, value in params.items() if value == SCHEDULED_AT}
    now = {key: value for key, value in params.items() if key not in later}
    given = {**notebook_file.checked_params(notebook, now, texts=True), **_known(notebook, later)}
    payload = {
        "kind": "notebook",
        "language": notebook_file.language_of(notebook),
        "source": notebook_file.without_outputs(notebook),
        "path": str(file.resolve()),
        "params": given,
        "python": sys.executable,
        "cwd": str(folder),
        "kernel": kernel,
        "cell_limit_s": cell_timeout_s,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    body = json.dumps(payload).encode()
    if len(body) > check.MAX_PAYLOAD_BYTES:
        raise Invalid(f"{str(file)!r} has {len(body):,} bytes without outputs; at most 16 MB run", field="FILE")
    return pb.JobSpec(task=pb.Task(engine="notebook", name=name or file.name, payload=body))


def submitted(
    file: Path, options: submission.Options, *, kernel: str, cwd: Path | None, cell_timeout_s: float
) -> pb.JobSpec:
    """A notebook as a job, with the options of `run submit`.

    Raises:
        Invalid: the notebook or an option is no good, or the option is none for notebooks.
    """
    for option, given in (("--env", options.env), ("--secret", options.secrets), ("-o", options.outputs)):
        if given:
            raise Invalid(f"{option} is for programs and cells; a notebook gets what it needs as --param", field=option)
    around = submission.checked(options).spec
    spec = notebook_spec(
        file,
        submission.read_params(options.params),
        name=options.name,
        kernel=kernel,
        cwd=cwd,
        cell_timeout_s=cell_timeout_s,
    )
    for name, value in around.items():
        setattr(spec, name, value)
    return spec


def read(file: Path) -> bytes:
    """The file's content.

    Raises:
        Invalid: it is missing, a folder, or cannot be read.
    """
    if file.is_dir():
        raise Invalid(f"{str(file)!r} is a folder; name a notebook in it", field="FILE")
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise Invalid(f"no file {str(file)!r} here ({os.getcwd()})", field="FILE") from None
    except OSError as error:
        raise Invalid(f"{str(file)!r} cannot be read: {error.strerror}", field="FILE") from None


def executed(client: Jobs, run_id: str) -> tuple[Any, api.GetResponse]:
    """The executed notebook of a run, as far as it came, and the run.

    Raises:
        Conflict: the run has none.
    """
    from loam_lab.engines import formats

    found = client.get(api.GetRequest(job_id=run_id))
    kept = next((one for one in found.artifacts if one.kind is pb.ArtifactKind.ARTIFACT_NOTEBOOK and one.kept), None)
    job = found.job or pb.Job()
    if kept is None:
        raise Conflict(f"run {job.id!r} has no executed notebook: it is no notebook's run, or has not begun")
    content = client.get_blob(api.GetBlobRequest(job_id=job.id, sha256=kept.sha256)).content
    return formats.nbformat().reads(content.decode("utf-8"), as_version=4), found


def html(notebook: Any, *, title: str, with_code: bool) -> str:
    """A notebook as one HTML page; scripts of its outputs are kept out."""
    from loam_lab.engines import formats

    formats.nbformat()
    from nbconvert import HTMLExporter

    exporter: Any = HTMLExporter(exclude_input=not with_code, sanitize_html=True)  # type: ignore[no-untyped-call]
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = not with_code
    text, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
    return str(text)


def source_lines(found: api.GetResponse) -> list[str]:
    """Which source ran, whether the file is another one now, and which files the run wrote."""
    lines = []
    for one in found.artifacts:
        if one.kind is pb.ArtifactKind.ARTIFACT_SOURCE and one.sha256:
            lines.append(f"ran {one.path or 'the source'} as of {one.sha256[:12]}{_changed(one)}")
        elif one.kind is pb.ArtifactKind.ARTIFACT_FILE:
            lines.append(f"left {one.name}, {one.size_bytes:,} bytes")
    return lines


def cell_lines(found: api.GetResponse) -> list[str]:
    """The cells of a notebook's run, one line each."""
    glyphs = {
        pb.CellState.CELL_OK: "✓",
        pb.CellState.CELL_FAILED: "✗",
        pb.CellState.CELL_RUNNING: "▶",
        pb.CellState.CELL_REPLAYED: "↺",
    }
    lines = []
    if found.cells and found.job is not None and found.job.retry_of:
        restored = sum(cell.state is pb.CellState.CELL_REPLAYED for cell in found.cells)
        how = f"{restored} cell(s) restored from recorded steps (↺), the others run again"
        whole = "no recorded step was restored, so the whole notebook ran again"
        lines.append(f"retry of {found.job.retry_of[:13]}: {how if restored else whole}")
    return lines + [
        f"  {glyphs.get(cell.state, '·')} [{cell.index}] {cell.title[:60]}"
        + (f"  {cell.took_ms / 1000:.1f} s" if cell.took_ms else "")
        + (f"  {cell.error[:80]}" if cell.error else "")
        for cell in found.cells
    ]


def _changed(source: pb.Artifact) -> str:
    if not source.path:
        return ""
    try:
        now_is = hashlib.sha256(Path(source.path).read_bytes()).hexdigest()
    except OSError:
        return "; the file is not there any more"
    return "" if now_is == source.sha256 else "; the file has changed since"


def _known(notebook: Any, later: dict[str, Any]) -> dict[str, Any]:
    from loam_lab.engines import notebook_file, parameters

    if later and notebook_file.language_of(notebook) == "python":
        names = {one.name for one in notebook_file.declared(notebook)}
        for name in later.keys() - names:
            parameters.fitting(notebook_file.declared(notebook), {name: ""})
    return later
