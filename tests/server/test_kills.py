"""kill -9 of server, Sail and catalog: what was accepted still ends, and what lives is found again."""

from homes import Home, kill, until

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S = pb.JobState
WRITES = "spark.sql('create database if not exists lake')\nspark.range(4).writeTo(f'lake.t{params[\"n\"]}').create()\n"


def open_spark(home):
    return home.client().open_engine(api.OpenEngineRequest(engine="spark", holder="test"))


def test_every_accepted_job_ends_although_the_server_is_killed(home):
    """Sail and catalog outlive it, and the next server adopts them."""
    home.here("up")
    first = open_spark(home)
    runs = [home.submit("w.py", WRITES, "--param", f"n={n}", "--name", f"w{n}") for n in range(3)]
    before = {name: home.need(name) for name in ("sail", "catalog")}
    server = home.record()["pid"]

    kill(server)
    listed = home.here("run", "list", "--json").json["jobs"]

    assert {run["id"] for run in listed} == set(runs)
    assert home.record()["pid"] != server
    found = [home.ended(run) for run in runs]
    assert [one.job.state for one in found] == [S.SUCCEEDED] * 3
    assert [len(one.attempts) for one in found] == [1] * 3
    assert [[s.table for s in one.snapshots if s.snapshot_id] for one in found] == [[f"lake.t{n}"] for n in range(3)]
    assert open_spark(home) == first
    assert {name: home.program(name) for name in before} == before


def test_a_killed_sail_is_back_on_another_port_and_a_killed_catalog_on_its_own(home):
    home.here("up")
    first = open_spark(home)

    kill(home.need("sail").pid)
    until(lambda: (found := home.program("sail")) and found.starts == 2, what="a second Sail")
    second = open_spark(home)
    assert second.endpoint != first.endpoint
    assert second.catalog_url == first.catalog_url

    kill(home.need("catalog").pid)
    until(lambda: (found := home.program("catalog")) and found.starts == 2, what="a second catalog")
    assert open_spark(home) == second
    assert home.here("table", "list", "--json").json == {"tables": []}
    said = {p.name: p for p in home.client().status(api.StatusRequest()).processes}
    assert (said["sail"].starts, said["catalog"].starts) == (2, 2)


def test_what_died_with_the_server_is_started_anew(home):
    home.here("up")
    first = open_spark(home)
    for pid in (home.record()["pid"], home.need("sail").pid, home.need("catalog").pid):
        kill(pid)

    home.here("up")
    again = open_spark(home)

    assert again.endpoint != first.endpoint
    assert again.catalog_url == first.catalog_url


def test_down_ends_what_a_killed_server_left(home):
    home.here("up")
    open_spark(home)
    kill(home.record()["pid"])

    said = home.here("down").out

    assert "no server runs here; ended what it had left: sail, catalog" in said
    home.none_left()


def test_a_client_that_comes_while_the_server_ends_gets_the_next_one(home):
    home.here("up")
    open_spark(home)
    first = home.record()["pid"]
    ending = home.start("down")
    until(lambda: not (home.path / "server.json").exists() or ending.poll() is not None, what="the end's begin")

    home.here("up")

    assert home.record()["pid"] != first
    assert ending.wait(timeout=30) == 0


def test_a_lease_shorter_than_the_sweep_is_swept_all_the_same(tmp_path):
    """Else each look would come so late that it is taken for a sleep, and every lease be given another length."""
    home = Home(tmp_path, LOAM_LEASE_MS="900", LOAM_SWEEP_MS="5000")
    try:
        home.here("up")
        jobs = home.client()
        task = pb.Task(engine="python", name="t", payload=b"{}")
        spec = pb.JobSpec(task=task, retry=pb.RetryPolicy(max_lost=1))
        to = api.LeaseTo(worker="gone", lease_ms=900)
        [run_id] = jobs.enqueue(api.EnqueueRequest(jobs=[spec], lease_to=to)).job_ids
        assert home.ended(run_id, 15.0).outcome.failure.kind == "WorkerLost"
    finally:
        home.close()
