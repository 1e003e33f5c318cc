"""What a recorded cell costs against the same cell plain, in one kernel on one session; and how soon the first answers.

`measure()` prints medians and ratios and returns them. Alternating, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from jupyter_client import KernelManager

TRIVIAL, QUERY = 40, 7
RUN = "application/vnd.loam.run.v1+json"
SUM = "spark.range({rows}).selectExpr('sum(id * id % 1009)').collect()[0][0]"


def measure() -> dict[str, float]:
    """Measure, print, and return everything in milliseconds, ratios apart."""
    with tempfile.TemporaryDirectory(prefix="loam-bench-") as folder:
        home = {**_clean(os.environ), "LOAM_HOME": str(Path(folder) / "home")}
        try:
            found = {**_first(home), **_overhead(home)}
        finally:
            subprocess.run([sys.executable, "-m", "loam_lab.cli", "down", "--force"], env=home, capture_output=True)
    for name, value in found.items():
        print(f"{name:28} {value:10.2f}")
    return found


def _first(home: dict[str, str]) -> dict[str, float]:
    """A fresh kernel with nothing running: until the extension is there, the line moves, the result is shown."""
    manager, client = _kernel(home)
    try:
        load = _run(client, "%load_ext loam_lab")[0]
        took, seen = _run(client, "%%loam spark\nspark.range(5)")
        line = next(at for at, kind, content in seen if RUN in content.get("data", {}))
        result = next(at for at, kind, content in seen if kind == "execute_result")
        return {"load_ext_ms": load, "first_line_ms": line, "first_result_ms": result, "first_cell_ms": took}
    finally:
        _end(manager, client)


def _overhead(home: dict[str, str]) -> dict[str, float]:
    manager, client = _kernel(home)
    try:
        _run(client, "%load_ext loam_lab")
        _run(client, "%%loam spark\nspark.range(1).collect()")
        plain, attached = _alternate(client, "1 + 1", TRIVIAL)
        query = SUM.format(rows=_rows_for_a_second(client))
        plain_query, attached_query = _alternate(client, query, QUERY)
    finally:
        _end(manager, client)
    return {
        "trivial_plain_ms": plain,
        "trivial_attached_ms": attached,
        "trivial_added_ms": attached - plain,
        "query_plain_ms": plain_query,
        "query_attached_ms": attached_query,
        "query_ratio": attached_query / plain_query,
    }


def _alternate(client, code: str, times: int) -> tuple[float, float]:
    plain, attached = [], []
    for _ in range(times):
        plain.append(_run(client, code)[0])
        attached.append(_run(client, f"%%loam spark\n{code}")[0])
    return statistics.median(plain), statistics.median(attached)


def _rows_for_a_second(client) -> int:
    rows = 10_000_000
    while (took := _run(client, SUM.format(rows=rows))[0]) < 1_100:
        rows = int(rows * min(8, max(1.3, 1_400 / took)))
    return rows


def _kernel(home: dict[str, str]):
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=home)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(60)
    return manager, client


def _end(manager, client) -> None:
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def _run(client, code: str):
    """(milliseconds until the cell is idle, [(milliseconds, kind, content), ...])"""
    began, seen = monotonic(), []
    sent = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != sent:
            continue
        at = (monotonic() - began) * 1000
        kind, content = message["msg_type"], message["content"]
        if kind == "error":
            raise RuntimeError(f"{content['ename']}: {content['evalue']}")
        if kind == "status" and content["execution_state"] == "idle":
            return at, seen
        seen.append((at, kind, content))


def _clean(environment) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("LOAM_")}


if __name__ == "__main__":
    measure()
