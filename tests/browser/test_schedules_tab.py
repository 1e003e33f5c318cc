"""Schedules in JupyterLab: the form, the section of the sidebar, the matrix, and the executed notebook behind it."""

import json
import re

import pytest
from homes import until
from notebooks_of import notebook_of
from playwright.sync_api import expect
from test_sidebar import serious

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api

PARAMETERS = "day: date = None  # which one\nn: int = 15\nwho: str = 'ada'\ndry_run: bool = False"


def create(home, name, job, **more):
    rule = more.pop("rule", None) or api.Rule(cron="0 6 1 1 *", zone="Europe/Berlin")
    return home.client().create_schedule(api.CreateScheduleRequest(name=name, rule=rule, job=job, **more)).schedule


def task(name="m:f"):
    payload = json.dumps({"arguments": {"day": "x"}}).encode()
    return pb.JobSpec(task=pb.Task(engine="python", name=name, payload=payload), queue="nobody")


def named(home, name):
    found = home.client().list_schedules(api.ListSchedulesRequest(text=name)).schedules
    return found[0] if found else None


@pytest.fixture
def opened(tab, lab, home):
    """The form of a notebook, from its own toolbar."""
    name = "daily flights.ipynb"
    (lab.root / name).write_text(notebook_of("print(n)", parameters=PARAMETERS), encoding="utf-8")
    tab.sidebar()
    book = tab.notebook(name, kernel=False)
    book.get_by_role("button", name="Schedule…").click()
    form = tab.page.get_by_role("form", name="Schedule daily flights.ipynb")
    expect(form.get_by_text("4 parameters")).to_be_visible(timeout=15_000)
    return form


def test_the_form_shows_what_will_happen_and_makes_the_schedule(tab, home, opened):
    form = opened
    fires = form.get_by_role("table", name="Next ten fires")
    form.get_by_label("Time zone").fill("Europe/Berlin")
    form.get_by_label("Cron rule").fill("15 2 * * *")
    expect(form).to_contain_text("At 02:15 every day, Europe/Berlin")
    expect(fires.locator("tbody tr:not(:has(td[colspan]))")).to_have_count(10)
    expect(fires).to_contain_text(re.compile(r"02:15.*0[01]:15"))
    expect(form).to_contain_text(re.compile("Off from .* 4 ticks missed, 1 run starts"))
    assert serious(tab.page) == []

    form.get_by_label("Cron rule").fill("75 2 * * *")
    expect(form.get_by_role("alert")).to_contain_text("75")
    form.get_by_label("Cron rule").fill("15 2 * * *")
    form.get_by_label("n", exact=True).fill("many")
    form.get_by_label("day", exact=True).select_option("scheduled day")
    form.get_by_label("dry_run", exact=True).select_option("True")
    form.get_by_role("radio", name="Queue").click()
    form.get_by_label("Retries").fill("2")
    form.get_by_label("Time limit of a cell").fill("10 min")
    form.get_by_label("Keep the outputs of so many runs").fill("30")
    expect(form).to_contain_text("They fire with Lab closed, too, until this machine restarts.")
    form.get_by_role("button", name="Create schedule").click()
    expect(form.get_by_role("alert").last).to_contain_text("parameter 'n' takes")
    form.get_by_label("n", exact=True).fill("7")
    form.get_by_role("button", name="Create schedule").click()

    page = tab.page.get_by_role("article", name="daily flights")
    expect(page).to_contain_text("Nothing fired yet")
    one = named(home, "daily flights")
    asked = api.GetScheduleRequest(schedule_id=one.id)
    payload = json.loads(home.client().get_schedule(asked).schedule.job.task.payload)
    assert payload["params"] == {"n": 7, "day": "loam.scheduled_at", "dry_run": True}
    assert (one.rule.cron, one.rule.zone, payload["cell_limit_s"]) == ("15 2 * * *", "Europe/Berlin", 600)
    assert (one.policy.overlap, one.job.retry.max_attempts) == (api.OverlapPolicy.OVERLAP_QUEUE, 3)
    assert one.policy.keep_outputs == 30

    page.get_by_role("button", name="Edit…").click()
    form = tab.page.get_by_role("form", name="Edit daily flights")
    expect(form.get_by_label("n", exact=True)).to_have_value("7")
    form.get_by_label("n", exact=True).fill("8")
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    kept = home.client().get_schedule(asked).schedule
    assert json.loads(kept.job.task.payload)["params"]["n"] == 8
    assert kept.source_sha256 == one.source_sha256


def test_the_section_pauses_and_triggers_by_keyboard_and_pointer(tab, home):
    side = tab.sidebar()
    one = create(home, "nightly <b>x</b>", task())
    row = side.locator(f'[data-schedule="{one.id}"]')
    expect(row).to_have_attribute("data-state", "scheduled")
    expect(row).to_contain_text("nightly <b>x</b>")
    expect(side).to_contain_text("They fire with Lab closed, too, until this machine restarts.")
    row.click()
    acts = side.get_by_role("toolbar", name="Of nightly <b>x</b>")
    acts.get_by_role("button", name="Pause").click()
    expect(row).to_have_attribute("data-state", "paused")
    assert named(home, "nightly").paused
    # The menu offers what fits, also where the key for menus opens it: that is an event of the list.
    menu = tab.page.locator(".lm-Menu")
    row.click(button="right")
    expect(menu.get_by_text("Resume Schedule")).to_be_visible()
    expect(menu.get_by_text("Pause Schedule")).to_have_count(0)
    tab.page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    side.get_by_role("listbox", name="Schedules").dispatch_event("contextmenu")
    menu.get_by_text("Resume Schedule").click()
    expect(row).to_have_attribute("data-state", "scheduled")
    acts.get_by_role("button", name="Pause").click()
    expect(row).to_have_attribute("data-state", "paused")
    acts.get_by_role("button", name="Resume").click()
    expect(row).to_have_attribute("data-state", "scheduled")

    side.get_by_role("listbox", name="Schedules").focus()
    tab.page.keyboard.press("t")
    tab.page.get_by_label("Parameters, a JSON object").fill('{"day": "y"}')
    tab.page.get_by_role("button", name="Submit", exact=True).click()
    expect(row).to_have_attribute("data-state", "queued")
    acts.get_by_role("button", name="Runs").click()
    expect(side.locator(".jp-loam-ofschedule")).to_contain_text("nightly")
    expect(side.locator("[data-run]")).to_have_count(1)
    side.get_by_role("button", name="Show all").click()
    [tick] = home.client().list_ticks(api.ListTicksRequest(schedule_id=one.id)).ticks
    assert json.loads(home.get(tick.job_id).job.task.payload)["arguments"] == {"day": "y"}
    side.get_by_role("listbox", name="Schedules").focus()
    tab.page.keyboard.press("Delete")
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_the_matrix_leads_to_the_run_and_to_the_cell(tab, home, lab):
    (lab.root / "fails.ipynb").write_text(notebook_of("a = 1", "a / 0", "print('never')"), encoding="utf-8")
    home.here("schedule", "create", str(lab.root / "fails.ipynb"), "--cron", "0 6 1 1 *", "--name", "fails")
    tab.sidebar()
    one = named(home, "fails")
    run = home.client().trigger_schedule(api.TriggerScheduleRequest(schedule_id=one.id)).job_id
    home.ended(run)
    tab.command("loam:open-schedule", id=one.id)
    page = tab.page.get_by_role("article", name="fails")
    grid = page.get_by_role("grid")
    expect(grid.get_by_role("gridcell", name=re.compile("cell 2: failed"))).to_have_attribute("tabindex", "0")
    expect(grid.get_by_role("gridcell", name=re.compile("cell 3: not run"))).to_be_visible()
    expect(page.get_by_role("region", name=re.compile("Cell 2,"))).to_contain_text("division by zero")
    assert serious(tab.page) == []
    grid.locator('[tabindex="0"]').focus()
    tab.page.keyboard.press("ArrowUp")
    expect(grid.get_by_role("gridcell", name=re.compile("cell 1: succeeded"))).to_be_focused()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    book = tab.page.locator(".jp-loam-executed:visible")
    at = book.locator(".jp-Cell.jp-loam-at")
    expect(at).to_contain_text("ZeroDivisionError: division by zero")
    expect(book).to_contain_text("Read only")
    expect(at).to_be_in_viewport()
    at.locator(".cm-content").click()
    tab.page.keyboard.type("x")
    expect(at).not_to_contain_text("xa / 0")

    tab.command("loam:open-schedule", id=one.id)
    page.get_by_role("button", name="Open run").click()
    cells = tab.page.locator(".jp-loam-page:visible").get_by_role("table", name="Cells")
    expect(cells).to_contain_text("failed")
    until(lambda: cells.get_by_role("row").count() == 3)
