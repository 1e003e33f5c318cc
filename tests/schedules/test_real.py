"""Schedules and notebooks with real servers, workers and kernels: five servers, kills, files that change."""

import json
import sqlite3
import threading
import time

import pytest
from homes import Home, kill, until
from notebooks_of import notebook_of

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb


@pytest.fixture
def home(tmp_path):
    one = Home(tmp_path)
    yield one
    one.close()


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A home whose server and worker run already, for the tests that run notebooks one after the other."""
    one = Home(tmp_path_factory.mktemp("warm"))
    yield one
    one.close()


def ticks(home, name):
    request = api.ListTicksRequest(schedule_id=name, limit=1_000, with_cells=True)
    return [tick for tick in home.client().list_ticks(request).ticks if tick.job_id][::-1]


def kinds(found, kind):
    return [one for one in found.artifacts if one.kind is kind]


def test_five_servers_on_one_home_make_one_run_a_tick(home):
    """One serves, four find the home taken; each tick makes one run."""
    servers = [home.start("up", "--foreground") for _ in range(5)]
    until(lambda: sum(server.poll() is None for server in servers) == 1, 60, "one server that serves")
    begin = int(time.time() * 1000) + 1_000
    rule = api.Rule(every_ms=1_000, start_ms=begin, end_ms=begin + 9_000)
    job = pb.JobSpec(task=pb.Task(engine="python", name="m:f", payload=b"{}"))
    policy = api.TickPolicy(overlap=api.OverlapPolicy.OVERLAP_ALLOW, missed=api.MissedPolicy.MISSED_ALL)
    home.client().create_schedule(api.CreateScheduleRequest(name="s", rule=rule, job=job, policy=policy))
    found = until(lambda: ticks(home, "s") if len(ticks(home, "s")) >= 10 else None, 60, "ten ticks")
    assert [tick.at_ms for tick in found] == [begin + n * 1_000 for n in range(10)]
    jobs = home.client().list(service_pb.ListRequest(limit=100)).jobs
    assert sorted(job.id for job in jobs) == sorted(tick.job_id for tick in found)


def test_a_server_killed_in_a_backfill_of_100_ticks_makes_100_distinct_runs(home):
    """dagster#33059: a restart in the middle of a backfill ended it."""
    home.here("up")
    client = home.client()
    begin = 1_700_000_000_000 // 86_400_000 * 86_400_000
    job = pb.JobSpec(task=pb.Task(engine="python", name="m:f", payload=b"{}"), queue="fill")
    made = client.create_schedule(
        api.CreateScheduleRequest(name="s", rule=api.Rule(cron="0 0 * * *"), job=job, paused=True)
    ).schedule
    client.backfill(
        api.BackfillRequest(schedule_id=made.id, from_ms=begin, to_ms=begin + 99 * 86_400_000, concurrency=3)
    )
    done, kills = [], 0
    while len(done) < 100:
        jobs = home.client().patient(lambda: True)
        request = service_pb.LeaseRequest(worker="w", queues=["fill"], limit=3, wait_ms=5_000)
        for lease in jobs.lease(request).leases:
            completion = service_pb.Completion(token=lease.token, how=pb_oneof("succeeded", b"null"))
            jobs.complete(service_pb.CompleteRequest(completions=[completion]))
            done.append(lease.job.headers["loam.scheduled_at"])
        if len(done) // 25 > kills and len(done) < 100:
            kills += 1
            kill(home.record()["pid"])
            home.here("up")
    assert kills == 3
    assert len(set(done)) == len(done) == 100
    found = until(lambda: [tick for tick in ticks(home, "s") if tick.job_id])
    assert [tick.at_ms for tick in found] == [begin + day * 86_400_000 for day in range(100)]
    [filled] = home.client().get_schedule(api.GetScheduleRequest(schedule_id="s")).backfills
    assert (filled.state, filled.made) == (api.BackfillState.BACKFILL_DONE, 100)


def pb_oneof(field, value):
    from protobuf import Oneof

    return Oneof(field, value)


def test_pinned_runs_what_was_and_latest_what_is_and_each_says_so(warm):
    """jupyter-scheduler#504: edits were ignored without a sign."""
    warm.file("n.ipynb", notebook_of("print('before')"))
    warm.here("schedule", "create", "n.ipynb", "--cron", "@yearly", "--name", "pinned")
    warm.here("schedule", "create", "n.ipynb", "--cron", "@yearly", "--name", "latest", "--source", "latest")
    warm.file("n.ipynb", notebook_of("print('after')"))
    said = {}
    runs = {name: warm.here("schedule", "trigger", name, "--json").json["job_id"] for name in ("pinned", "latest")}
    for name, run_id in runs.items():
        assert warm.ended(run_id, 120).job.state is pb.JobState.SUCCEEDED
        said[name] = warm.text(run_id), warm.here("run", "show", run_id).out
    assert said["pinned"][0] == "before\n"
    assert "the file has changed since" in said["pinned"][1]
    assert said["latest"][0] == "after\n"
    assert "changed since" not in said["latest"][1]


def test_a_scheduled_notebook_gets_its_instant_and_shows_its_cells_and_files(warm, tmp_path):
    """jupyter-scheduler#349: files that were written with a relative path were not where the user looked."""
    away = tmp_path / "away.csv"
    write = f"open('made.csv', 'w').write('a')\nopen({str(away)!r}, 'w').write('b')"
    cells = ["import os\nprint(day, os.environ['LOAM_SCHEDULED_AT'])", write]
    warm.file("n.ipynb", notebook_of(*cells, parameters="import datetime\nday: datetime.date = None"))
    warm.here("schedule", "create", "n.ipynb", "--cron", "@yearly", "-p", "day=loam.scheduled_at", "--name", "n")
    run_id = warm.here("schedule", "trigger", "n", "--json").json["job_id"]
    found = warm.ended(run_id, 120)
    today, instant = warm.text(run_id).split()
    assert instant.startswith(today)
    assert [cell.state for cell in found.cells] == [pb.CellState.CELL_OK] * 4
    [written] = kinds(found, pb.ArtifactKind.ARTIFACT_FILE)
    assert (written.name, written.path) == ("made.csv", str(warm.work / "made.csv"))
    assert away.read_text() == "b", "an absolute path stays where it is"
    assert found.job.progress.text == "4 of 4 cells", "how far it came is kept after the end"
    assert len(kinds(found, pb.ArtifactKind.ARTIFACT_NOTEBOOK)) == 1
    assert "■■■■" in warm.here("schedule", "show", "n").out


def test_a_failed_notebook_is_exported_with_and_without_its_code(warm):
    warm.file("n.ipynb", notebook_of("print('shown')", "secret_name = 1/0"))
    said = warm.loam("run", "submit", "n.ipynb", "--wait", code=None, seconds=120)
    assert said.code != 0
    run_id = warm.here("run", "list", "--json").json["jobs"][0]["id"]
    warm.here("run", "export", run_id, "-o", "with.html")
    warm.here("run", "export", run_id, "-o", "without.html", "--no-code")
    assert "secret_name" in (warm.work / "with.html").read_text()
    page = (warm.work / "without.html").read_text()
    assert "shown" in page
    assert "secret_name" not in page.split("Traceback")[0]
    warm.here("run", "export", run_id, "--to", "ipynb", "-o", "ran.ipynb")
    assert json.loads((warm.work / "ran.ipynb").read_text())["cells"][0]["outputs"][0]["text"] == ["shown\n"]


SLOW = notebook_of("print('first')", "import time\nfor n in range(600): print('on', n); time.sleep(0.5)")


def running(home, *more):
    home.file("n.ipynb", SLOW)
    run_id = home.here("run", "submit", "n.ipynb", "--json", *more).json["id"]
    until(lambda: "on 1" in home.text(run_id), 90, "the second cell")
    return run_id


def test_a_killed_kernel_fails_the_run_with_the_reason_and_keeps_what_there_was(warm):
    run_id = running(warm)
    [kernel] = warm.processes("ipykernel_launcher")
    kill(kernel.pid)
    begin = time.monotonic()
    found = warm.ended(run_id, 30)
    assert time.monotonic() - begin < 10
    assert found.job.state is pb.JobState.FAILED
    assert "kernel died (signal 9, likely out of memory) in cell 2 of 2" in found.job.error
    assert warm.text(run_id).startswith("first\non 0\n")
    assert [cell.state for cell in found.cells] == [pb.CellState.CELL_OK, pb.CellState.CELL_FAILED]


@pytest.mark.parametrize("victim", ["notebook_child", "loam_lab.worker"])
def test_a_killed_child_or_worker_loses_the_attempt_and_no_kernel_stays(warm, victim):
    """jupyter-scheduler: the row said "in progress" for ever, and the number of running ones never fell."""
    run_id = running(warm, "--no-rerun")
    kernels = {process.pid for process in warm.processes("ipykernel_launcher")}
    [process] = warm.processes(victim)
    kill(process.pid)
    found = warm.ended(run_id, 60)
    assert found.job.state is pb.JobState.FAILED
    assert [attempt.end for attempt in found.attempts] == [pb.AttemptEnd.LOST]
    until(lambda: not kernels & {one.pid for one in warm.processes("ipykernel_launcher")}, 20, "the kernel's end")
    assert warm.text(run_id).startswith("first\n")


def test_a_cancel_reaches_a_notebook_that_an_earlier_server_started(warm):
    """jupyter-scheduler: after a restart of the server Stop stopped nothing, and the row later read "completed"."""
    run_id = running(warm)
    kill(warm.record()["pid"])
    warm.here("up")
    warm.loam("run", "cancel", run_id)
    assert warm.ended(run_id, 60).job.state is pb.JobState.CANCELLED
    until(lambda: not warm.processes("ipykernel_launcher"), 20, "the kernel's end")


BAD = [
    (("none.ipynb",), "no file"),
    (("folder.ipynb",), "is a folder; name a notebook in it"),
    (("loop.ipynb",), "cannot be read: "),
    (("text.ipynb",), "it is not JSON"),
    (("old.ipynb",), "notebook format 3"),
    (("plain.ipynb",), "names no kernel"),
    (("n.ipynb", "--kernel", "nope"), "kernel 'nope' is not installed here; there are: "),
    (("n.ipynb", "-p", "m=1"), "parameter 'm' is not one of this notebook's"),
    (("n.ipynb", "-p", "n=x"), "parameter 'n' takes int"),
    (("n.ipynb", "--cwd", "/none"), "is not a folder here"),
    (("n.ipynb", "--cron", "0 0 30 2 *"), "never fires"),
    (("n.ipynb", "--cron", "@daily", "--tz", "Berlin"), "Europe/Berlin"),
    (("n.ipynb", "--every", "soon"), "is not a length of time"),
    (("n.ipynb", "--at", "tomorrow"), "write it like 2027-01-31T06:00"),
    (("n.ipynb", "--cron", "@daily", "--start", "2027-02-01", "--end", "2027-01-01"), "end is not after start"),
    (("n.ipynb",), "takes one of cron, every and at"),
]


def test_bad_input_is_refused_with_the_field_and_what_to_change_and_nothing_is_stored(home):
    """jupyter-scheduler#439: a kernel that is not there was found out when the job ran."""
    home.file("n.ipynb", notebook_of("n", parameters="n: int = 1"))
    home.file("text.ipynb", "hello")
    (home.work / "folder.ipynb").mkdir()
    (home.work / "loop.ipynb").symlink_to("loop.ipynb")  # what even root cannot read
    home.file("old.ipynb", '{"nbformat": 3, "nbformat_minor": 0, "worksheets": [], "metadata": {}}')
    home.file("plain.ipynb", notebook_of("1", kernel=None))
    for words, said in BAD:
        given = (
            words
            if "--cron" in words or "--every" in words or "--at" in words or said.startswith("takes")
            else (*words, "--cron", "@daily")
        )
        answer = home.here("schedule", "create", *given, code=None)
        assert answer.code != 0, words
        assert said in answer.err, (words, answer)
    assert "no schedules" in home.here("schedule", "list").out


def test_a_schedule_is_edited_paused_resumed_and_deleted_by_name(home):
    home.file("n.ipynb", notebook_of("1", parameters="n: int = 1\nm: int = 1"))
    rule = ("--cron", "0 6 * * *", "--tz", "Europe/Berlin", "--name", "daily", "-p", "m=5")
    home.here("schedule", "create", "n.ipynb", *rule)
    edited = home.here(
        "schedule", "edit", "daily", "--cron", "30 7 * * mon-fri", "--overlap", "queue", "--keep-outputs", "5", "--json"
    ).json
    assert edited["rule"]["cron"] == "30 7 * * mon-fri"
    policy = edited["policy"]
    assert (edited["rule"]["zone"], policy["overlap"], policy["keep_outputs"]) == ("Europe/Berlin", "queue", 5)
    assert "outputs: of the last 5 runs" in home.here("schedule", "show", "daily").out
    again = home.here("schedule", "edit", "daily", "-p", "n=7", "--json").json
    assert again["job"]["task"]["payload"]["params"] == {"m": 5, "n": 7}
    assert again["source_sha256"] == edited["source_sha256"] != ""
    assert "parameter 'k'" in home.here("schedule", "edit", "daily", "-p", "k=7", code=None).err
    assert home.here("schedule", "pause", "daily", "--json").json["paused"] is True
    assert "is paused" in home.here("schedule", "list").out
    assert home.here("schedule", "resume", "daily", "--json").json["paused"] is False
    home.here("schedule", "delete", "daily")
    assert "no schedules" in home.here("schedule", "list").out


def test_the_doctor_names_a_schedule_whose_row_is_bad(home):
    home.file("n.ipynb", notebook_of("1"))
    for name in ("good", "bad"):
        home.here("schedule", "create", "n.ipynb", "--cron", "@yearly", "--name", name)
    with sqlite3.connect(home.path / "jobs.db") as db:
        db.execute("UPDATE schedules SET record = '{' WHERE name = 'bad'")
    said = home.here("doctor", code=None).out
    assert "schedule 'bad'" in said
    assert "'good'" not in said


def test_a_preview_needs_no_server(home):
    said = home.here(
        "schedule", "preview", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2027-03-27T12:00",
        "--count", "2", "--json",
    ).json  # fmt: skip
    assert said["words"] == "at 02:30 every day, Europe/Berlin"
    assert [(fire["utc"], fire["clocks_change"]) for fire in said["fires"]] == [
        ("2027-03-28T01:00:00Z", True),
        ("2027-03-29T00:30:00Z", False),
    ]
    assert not home.processes()


@pytest.mark.faults
def test_no_notebook_run_that_is_killed_anywhere_is_without_its_true_end(tmp_path):
    """30 runs; at random times a kernel, a child or a worker is killed."""
    import random

    random.seed(6)
    home = Home(tmp_path, LOAM_SLOTS="2")
    home.file("n.ipynb", notebook_of("import time", *["time.sleep(0.5)"] * 6))
    ids = [home.here("run", "submit", "n.ipynb", "--json").json["id"] for _ in range(30)]
    stop = threading.Event()

    def kill_some():
        while not stop.wait(random.uniform(1.0, 4.0)):
            found = home.processes(random.choice(["ipykernel_launcher", "notebook_child", "loam_lab.worker"]))
            if found:
                kill(random.choice(found).pid)

    killer = threading.Thread(target=kill_some, daemon=True)
    killer.start()
    threading.Timer(90, stop.set).start()
    ends = [home.ended(run_id, 600) for run_id in ids]
    stop.set()
    killer.join()
    for found in ends:
        assert all(attempt.end is not pb.AttemptEnd.OPEN for attempt in found.attempts)
        if found.job.state is pb.JobState.SUCCEEDED:
            assert [cell.state for cell in found.cells] == [pb.CellState.CELL_OK] * 7
        else:
            assert found.job.state is pb.JobState.FAILED
            assert "died" in found.job.error or "lost" in found.job.error
    until(lambda: not home.processes("ipykernel_launcher"), 30, "the kernels' end")
    home.close()
