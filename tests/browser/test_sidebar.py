"""The sidebar: every state is true, everything can be done there, by keyboard too, in each theme."""

import json
import re
import time
from pathlib import Path

import pytest
from homes import until
from playwright.sync_api import expect

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = {
    "markup": "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>",
    "terminal": "red \x1b[31malert\x1b[0m \x07bell",
    "direction": "abc \u202egnp.exe\u202c def",
    "long": "A" * 900,
}


def enqueue(client, names, *, queue="nobody", engine="python", tags=()):
    jobs = [
        pb.JobSpec(task=pb.Task(engine=engine, name=name, payload=b"{}"), queue=queue, tags=list(tags))
        for name in names
    ]
    return list(client.enqueue(api.EnqueueRequest(jobs=jobs)).job_ids)


def fail(client, ids, *, message="no such day", queue="nobody"):
    """Have those runs fail for good."""
    leases = client.lease(api.LeaseRequest(worker="w", queues=[queue], limit=len(ids), wait_ms=1_000)).leases
    from protobuf import Oneof

    failure = pb.Failure(kind="ValueError", message=message, traceback=f"Traceback\n{message}")
    client.complete(
        api.CompleteRequest(
            completions=[api.Completion(token=lease.token, how=Oneof("failed", failure)) for lease in leases]
        )
    )


def serious(page):
    """What axe-core finds that is serious, in our views."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({include: ['.jp-loam']}, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_sixty_runs_at_once_never_show_a_wrong_state(tab, home):
    tab.sidebar()
    seen = set()
    tab.page.expose_function("noteState", lambda text: seen.add(text))
    tab.page.evaluate(
        """() => {
            const note = () => document.querySelectorAll('#loam-runs [data-run]').forEach(
                row => row.textContent.includes('burst') && window.noteState(row.dataset.state));
            new MutationObserver(note).observe(document.querySelector('#loam-runs'),
                {subtree: true, childList: true, attributes: true, characterData: true});
        }"""
    )
    ids = [home.submit(f"burst{at}.py", "print(1)\n", "--name", f"burst {at}") for at in range(3)]
    more = enqueue(home.client(), [f"burst {at}" for at in range(3, 60)])
    last = tab.row(more[-1])
    expect(last).to_have_attribute("data-state", "queued")
    expect(last).to_contain_text(re.compile(r"position \d+"))
    home.ended(ids[-1], 60)
    until(lambda: {"queued"} <= seen, 10)
    assert seen <= {"queued", "running", "succeeded"}
    home.client().purge_queue(api.PurgeQueueRequest(name="nobody"))
    expect(last).to_have_attribute("data-state", "cancelled")


def test_a_failed_run_says_why_first_and_is_retried_with_other_parameters(tab, home):
    tab.sidebar()
    source = "print('day', params['day'])\nif params['day'] < 5:\n    raise ValueError('no such day <b>bold</b>')\n"
    run_id = home.submit("days.py", source, "--param", "day=3")
    home.ended(run_id)
    expect(tab.row(run_id)).to_have_text(re.compile("dead letter.*no such day.*spark"))
    tab.row(run_id).click()
    page = tab.page.locator(".jp-loam-page:visible")
    error = page.get_by_role("alert", name="Error")
    expect(error).to_contain_text("ValueError: no such day <b>bold</b>")
    above = [error.bounding_box()["y"], page.get_by_role("region", name="Attempts").bounding_box()["y"]]
    assert above == sorted(above)
    expect(page.get_by_role("region", name="Code as it ran")).to_contain_text("raise ValueError")
    page.get_by_role("button", name="Retry with…").click()
    field = tab.page.get_by_label("Parameters, a JSON object")
    field.fill("{oops")
    tab.page.get_by_role("button", name="Submit", exact=True).click()
    expect(tab.page.get_by_role("dialog").get_by_role("alert")).to_contain_text("a JSON object is wanted")
    tab.page.get_by_label("Parameters, a JSON object").fill('{"day": 7}')
    tab.page.get_by_role("button", name="Submit", exact=True).click()
    page = tab.page.locator(".jp-loam-page:visible")
    expect(page.locator(".jp-loam-facts")).to_contain_text("succeeded", timeout=15_000)
    expect(page.get_by_role("log")).to_contain_text("day 7")
    expect(page.get_by_role("heading", name="Tries of the same")).to_be_visible()


def test_the_log_is_live_and_searched(tab, home):
    run_id = home.submit(
        "talk.py", "import time\nfor k in range(400):\n    print('line', k, flush=True)\n    time.sleep(0.05)\n"
    )
    tab.command("loam:open-run", id=run_id)
    log = tab.page.locator(".jp-loam-page:visible").get_by_role("log")
    expect(log).to_contain_text("line 3", timeout=15_000)
    first = tab.page.get_by_role("region", name="Log").locator("h2 .jp-loam-sub").first
    count = first.inner_text()
    until(lambda: first.inner_text() != count, 10)
    tab.page.get_by_role("searchbox", name="Search the log").fill("LINE 2")
    expect(log.locator("mark").first).to_be_visible()
    page = tab.page.locator(".jp-loam-page:visible")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".jp-loam-facts")).to_contain_text("cancelled")
    # It is where it was read after another page was in front of it.
    [other] = enqueue(home.client(), ["in front"])
    log.evaluate("log => { log.scrollTop = 0; }")
    tab.command("loam:open-run", id=other)
    expect(page.get_by_role("heading", name="in front")).to_be_visible()
    tab.page.wait_for_timeout(600)
    tab.command("loam:open-run", id=run_id)
    expect(log).to_be_visible()
    tab.page.wait_for_timeout(600)
    assert page.get_by_role("log").evaluate("log => log.scrollTop") == 0


def test_dead_letters_are_redriven_selected_and_all_of_a_filter_after_the_count(tab, home):
    client = home.client()
    ids = enqueue(client, ["mail 1", "mail 2", "mail 3", "report 1"], queue="post")
    fail(client, ids, queue="post")
    tab.sidebar()
    section = tab.page.get_by_role("region", name="Dead letters")
    section.get_by_role("button", name="Dead letters").click()
    expect(section.get_by_role("status")).to_have_text(re.compile(r"\d+"))
    section.get_by_label("Filter dead letters by name").fill("mail")
    section.get_by_label("Select mail 2").check()
    section.get_by_role("button", name="Redrive selected (1)").click()
    expect(section.get_by_label("Select mail 2")).to_have_count(0)
    section.get_by_role("button", name="Redrive all of these…").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Redrive 2 dead letters?")
    dialog.get_by_role("button", name="Redrive 2").click()
    expect(section.get_by_text("mail 1")).to_have_count(0)
    left = client.list(api.ListRequest(dead_letters=True, queue="post")).jobs
    assert [job.task.name for job in left] == ["report 1"]
    section.get_by_role("button", name="Dead letters").click()


def test_a_queue_is_paused_and_resumed(tab, home):
    [waits] = enqueue(home.client(), ["waits"], queue="slow-lane")
    tab.sidebar()
    section = tab.page.get_by_role("region", name="Queues")
    section.get_by_role("button", name="Pause queue slow-lane").click()
    expect(section).to_contain_text("paused")
    assert home.client().queues(api.QueuesRequest(names=["slow-lane"])).queues[0].paused
    # Its run says what it waits for, and mends it.
    tab.command("loam:open-run", id=waits)
    page = tab.page.locator(".jp-loam-page:visible")
    expect(page).to_contain_text("the queue slow-lane is paused")
    assert serious(tab.page) == []
    page.get_by_role("button", name="Resume the queue").click()
    expect(page).not_to_contain_text("is paused")
    section.get_by_role("button", name="Pause queue slow-lane").click()
    section.get_by_role("button", name="Resume queue slow-lane").click()
    expect(section.get_by_role("button", name="Pause queue slow-lane")).to_be_visible()


def test_a_file_becomes_a_job_and_lab_says_that_it_failed(tab, lab, home):
    (lab.root / "broken.py").write_text("raise SystemError('as it must')\n")
    tab.page.evaluate("window.jupyterapp.commands.execute('filebrowser:go-to-path', {path: ''})")
    tab.page.evaluate("window.jupyterapp.shell.activateById('filebrowser')")
    tab.page.locator(".jp-DirListing-item", has_text="broken.py").click(button="right")
    tab.page.get_by_role("menuitem", name="Run as Job…").click()
    tab.page.get_by_label("Name", exact=True).fill("broken on purpose")
    tab.page.get_by_label("Tags").fill("night")
    tab.page.get_by_role("button", name="Submit", exact=True).click()
    notice = tab.page.locator(".Toastify__toast", has_text="broken on purpose failed: ")
    expect(notice).to_have_count(1, timeout=15_000)
    notice.get_by_role("button", name="Open run").click()
    page = tab.page.locator(".jp-loam-page:visible")
    expect(page).to_contain_text("SystemError: as it must")
    expect(page).to_contain_text("night")
    expect(tab.page.locator("#jp-main-statusbar")).to_contain_text("dead letter")


def test_a_run_view_comes_back_after_a_reload_and_by_its_link(tab, home, lab):
    [run_id] = enqueue(home.client(), ["linked"])
    page = tab.page.locator(".jp-loam-page:visible")
    with tab.page.expect_request(lambda asked: asked.method == "PUT" and run_id in (asked.post_data or "")) as saved:
        tab.command("loam:open-run", id=run_id)
        expect(page.get_by_role("heading", name="linked")).to_be_visible()
        page.get_by_role("button", name="Copy a link to this run").click()
        link = tab.page.evaluate("navigator.clipboard.readText()")
    assert saved.value.response().ok  # Lab keeps its layout a second after a change
    tab.reload()
    expect(page.get_by_role("heading", name="linked")).to_be_visible()
    tab.page.goto(f"{link}&reset&token={lab.token}")
    tab.ready()
    expect(page.get_by_role("heading", name="linked")).to_be_visible()


def test_everything_by_keyboard(tab, home):
    ids = enqueue(home.client(), [f"key {at}" for at in range(30)])
    sidebar = tab.sidebar()
    expect(tab.row(ids[-1])).to_be_visible()
    expect(tab.page.locator(".jp-LauncherCard").first).to_be_visible()  # which takes the focus when it comes
    tab.command("loam:show-runs")
    keys = tab.page.keyboard
    runs = sidebar.get_by_role("listbox", name="Runs")
    expect(runs).to_be_focused()
    keys.press("Home")
    keys.press("ArrowDown")
    expect(tab.row(ids[-2])).to_have_attribute("aria-selected", "true")
    active = runs.get_attribute("aria-activedescendant")
    assert tab.page.evaluate("id => document.getElementById(id).dataset.run", active) == ids[-2]
    keys.press("PageDown")
    keys.press("PageDown")
    active = runs.get_attribute("aria-activedescendant")
    assert tab.page.evaluate("id => document.getElementById(id) !== null", active)
    keys.press("Home")
    expect(runs).to_be_focused()
    expect(tab.row(ids[-1])).to_have_attribute("aria-selected", "true")
    keys.press("Enter")
    page = tab.page.locator(".jp-loam-page:visible")
    expect(page.get_by_role("heading", name="key 29")).to_be_visible()
    tab.command("loam:show-runs")
    expect(runs).to_be_focused()
    keys.press("c")
    expect(tab.row(ids[-1])).to_have_attribute("data-state", "cancelled")
    # One tab stop: the next one is the first section's head.
    keys.press("Tab")
    expect(sidebar.get_by_role("button", name="Queues", exact=True)).to_be_focused()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"])
def test_axe_finds_nothing_serious(tab, home, theme):
    client = home.client()
    queue = f"axe-{theme.replace(' ', '-')}"
    ids = enqueue(client, ["axe dead", "axe waits"], queue=queue)
    fail(client, ids[:1], queue=queue)
    tab.theme(theme)
    tab.sidebar()
    tab.command("loam:open-run", id=ids[0])
    expect(tab.page.get_by_role("alert", name="Error")).to_be_visible()
    expect(tab.row(ids[0])).to_be_visible()
    assert serious(tab.page) == []
    tab.theme("JupyterLab Light")


def test_hostile_strings_are_text(tab, home):
    client = home.client()
    ids = enqueue(client, list(HOSTILE.values()), queue="hostile", tags=["odd"])
    fail(client, ids, message="\n".join(HOSTILE.values()) + "B" * 300_000, queue="hostile")
    noisy = home.submit(
        "noisy.py",
        "import sys\n"
        "print('x' * 1_000_000)\n"
        "sys.stdout.buffer.write(b'\\xff\\xfe \\x1b[2J\\n')\nprint('<b>bold</b>')\n",
    )
    tab.sidebar()
    expect(tab.row(ids[0])).to_contain_text("<img src=x onerror=window.hacked=1>")
    expect(tab.row(ids[1])).to_contain_text("\\x1b[31malert")
    expect(tab.row(ids[2])).to_contain_text("\\u202e")
    for run_id in ids:
        tab.command("loam:open-run", id=run_id)
        expect(tab.page.locator(".jp-loam-page:visible").get_by_role("alert")).to_contain_text("ValueError")
    home.ended(noisy)
    tab.command("loam:open-run", id=noisy)
    expect(tab.page.locator(".jp-loam-page:visible").get_by_role("log")).to_contain_text("<b>bold</b>", timeout=15_000)
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.evaluate("document.body.scrollWidth <= window.innerWidth")


def test_a_server_that_is_ended_leaves_a_banner_and_comes_back(tab, home):
    [run_id] = enqueue(home.client(), ["stays"])
    tab.sidebar()
    expect(tab.row(run_id)).to_be_visible()
    home.here("down", "--force")
    banner = tab.page.locator("#loam-runs").get_by_role("alert")
    expect(banner).to_contain_text("Server not reachable")
    expect(tab.row(run_id)).to_be_visible()
    # What was read stays, once, in grey: no section repeats what the banner says.
    sections = tab.page.locator("#loam-runs .jp-loam-secs")
    expect(sections.get_by_role("region", name="Queues")).to_contain_text("nobody")
    expect(sections).not_to_contain_text("is not running")
    assert serious(tab.page) == []
    expect(tab.page.locator("#jp-main-statusbar")).to_contain_text("not reachable")
    banner.get_by_role("button", name="Retry now").click()
    expect(banner).to_have_count(0)
    expect(tab.page.locator("#jp-main-statusbar")).not_to_contain_text("not reachable")
    began = time.monotonic()
    [later] = enqueue(home.client(), ["after"])
    expect(tab.row(later)).to_be_visible()
    assert time.monotonic() - began < 5
    assert json.loads((home.path / "server.json").read_text())["pid"]
