"""From an event in the store to a change on the page, on the real servers and Debian's Chromium.

Runs are put into a queue that no worker takes; a client of the bench leases and ends them. The page, 1280 by 860,
writes down when it has drawn a change; both clocks are this machine's. How soon a click is answered is what the
browser itself measures: from the input to the next picture.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from protobuf import Oneof

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_DRAWN = """() => {
    window.drawn = {};
    const note = () => document.querySelectorAll('#loam-runs [data-run]').forEach(row => {
        const seen = window.drawn[row.dataset.run] ??= {};
        seen[row.dataset.state] ??= Date.now();
    });
    new MutationObserver(note).observe(document.querySelector('#loam-runs'),
        {subtree: true, childList: true, attributes: true});
}"""

_ANSWERED = """() => {
    window.answered = [];
    new PerformanceObserver(list => list.getEntries().forEach(one => {
        if (one.name === 'pointerup') window.answered.push(one.duration);
    })).observe({type: 'event', durationThreshold: 16});
}"""


def _enqueue(client: Any, count: int) -> list[str]:
    jobs = [
        pb.JobSpec(task=pb.Task(engine="python", name=f"bench {at}", payload=b"{}"), queue="bench")
        for at in range(count)
    ]
    return list(client.enqueue(api.EnqueueRequest(jobs=jobs)).job_ids)


def _latency(
    tab: Any, client: Any, *, rounds: int, batch: int, every_s: float, meanwhile: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Runs accepted, leased and ended in rounds of `batch`; ms from the answer of Complete to the row that says so."""
    sent: dict[str, float] = {}
    began = time.monotonic()
    for at in range(rounds):
        _enqueue(client, batch)
        request = api.LeaseRequest(worker="bench", queues=["bench"], limit=batch, lease_ms=600_000)
        tokens = [lease.token for lease in client.lease(request).leases]
        if batch == 1:
            tab.page.wait_for_timeout(1_000 * every_s / 3)
        ends = [api.Completion(token=token, how=Oneof("succeeded", b"null")) for token in tokens]
        client.complete(api.CompleteRequest(completions=ends))
        sent |= dict.fromkeys((token.job_id for token in tokens), time.time() * 1000)
        meanwhile()
        tab.page.wait_for_timeout(max(1.0, 1_000 * (began + (at + 1) * every_s - time.monotonic())))
    reached = 3 * batch * rounds / (time.monotonic() - began)
    tab.page.wait_for_timeout(3_000)
    drawn = tab.page.evaluate("window.drawn")
    took = sorted(
        max(0.0, drawn[run]["succeeded"] - when) for run, when in sent.items() if "succeeded" in drawn.get(run, {})
    )
    return {
        "events per second": round(reached),
        "runs": len(sent),
        "seen on screen": len(took),
        "median ms": round(statistics.median(took), 1),
        "p95 ms": round(took[int(len(took) * 0.95)], 1),
    }


# What the page has loaded of ours: views that are opened later come later.
_LOADED = """() => performance.getEntriesByType('resource')
  .filter(one => /extensions\\/loam-lab\\/.*\\.js/.test(one.name))
  .reduce((sum, one) => sum + one.decodedBodySize, 0)"""


def measure() -> dict[str, Any]:
    """Latency at 10/s and as near to 1,000/s as the store goes, six tabs' processor time, first list, bundle size."""
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "browser")]
    from homes import Home
    from pages import Lab, Tab, chromium
    from playwright.sync_api import sync_playwright

    found: dict[str, Any] = {}
    static = Path(__file__).parents[2] / "loam_lab" / "labextension" / "static"
    found["all scripts, bytes"] = sum(file.stat().st_size for file in static.glob("*.js"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Home(Path(folder))
        home.here("up")
        _fill(home)
        lab = Lab(home, Path(folder) / "lab")
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        try:
            context = browser.new_context()
            tab = Tab(context, lab).open()
            found["bundle at start, bytes"] = tab.page.evaluate(_LOADED)
            began = time.monotonic()
            tab.command("loam:show-runs")
            tab.page.locator("#loam-runs [data-run]").first.wait_for()
            found["first list at 100,000 runs, ms"] = round((time.monotonic() - began) * 1000)
            tab.page.evaluate(_DRAWN)
            client = home.client()
            found["10 events a second"] = _latency(tab, client, rounds=20, batch=1, every_s=0.3)
            found["1,000 events a second"] = _latency(tab, client, rounds=30, batch=50, every_s=0.15)
            found["a click at that rate, ms"] = _clicks(tab, client)
            others = [Tab(context, lab).open() for _ in range(5)]
            for other in others:
                other.command("loam:show-runs")
            tab.page.wait_for_timeout(2_000)
            server = psutil.Process(lab.pid)
            before, at = sum(server.cpu_times()[:2]), time.monotonic()
            _latency(tab, client, rounds=30, batch=50, every_s=0.15)
            used = sum(server.cpu_times()[:2]) - before
            found["six tabs at that rate: one core of the Jupyter server"] = round(used / (time.monotonic() - at), 3)
        finally:
            browser.close()
            lab.close()
            home.close()
    return found


def _clicks(tab: Any, client: Any) -> dict[str, float]:
    """How soon a section that is opened or closed is seen so, while 1,000 events a second come in."""
    tab.page.evaluate(_ANSWERED)
    head = tab.page.get_by_role("region", name="Tables").locator("h3 button")
    _latency(tab, client, rounds=30, batch=50, every_s=0.15, meanwhile=head.click)
    took = sorted(tab.page.evaluate("window.answered"))
    return {"clicks": len(took), "median": statistics.median(took), "longest": took[-1]}


def _fill(home: Any, count: int = 100_000) -> None:
    """100,000 ended runs, straight into the store while its server is down."""
    from loam_lab.store.sqlite import SqliteStore
    from tests.bench.filled import fill

    home.here("down", "--force")
    store = SqliteStore(home.path / "jobs.db")
    fill(store, count, namespace="default")
    store.close()
    home.here("up")
