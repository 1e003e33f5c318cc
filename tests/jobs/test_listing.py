"""Lists find what a plain look at every run finds, whichever index leads them there."""

from itertools import product

from asking import complete, enqueue, lease, spec

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S = pb.JobState
# In the newest runs, in more names than are looked for one by one, in a few of them, in one, in none.
TEXTS = ("", "JOB", "b 1", "b 12", "needle", "%", "nowhere")
OTHERS = (
    {},
    {"tag": "odd"},
    {"queue": "seldom"},
    {"engine": "spark"},
    {"states": [S.SUCCEEDED, S.READY]},
    {"actor": "tester"},
)


def _fill(jobs):
    """2,400 runs of 2,300 names, the first of them ended."""
    enqueue(jobs, spec("needle in the hay", tags=["odd"], queue="seldom"))
    complete(jobs, lease(jobs, queue="seldom")[0].token)
    for first in range(0, 2_400, 800):
        wanted = [
            spec(
                f"job {n % 2_300}",
                tags=["odd"] if n % 7 == 0 else [],
                queue="seldom" if n % 300 == 0 else "default",
                engine="spark" if n % 5 == 0 else "python",
            )
            for n in range(first, first + 800)
        ]
        enqueue(jobs, *wanted)


def _pages(jobs, **filters):
    found, after = [], ""
    while True:
        reply = jobs.list(api.ListRequest(after=after, **filters))
        found += reply.jobs
        after = reply.next
        if not after:
            return found


def _is_meant(run, text="", tag="", queue="", engine="", states=(), actor=""):
    return (
        text.lower() in run.task.name.lower()
        and (not tag or tag in run.tags)
        and (not queue or run.queue == queue)
        and (not engine or run.task.engine == engine)
        and (not states or run.state in states)
        and (not actor or run.actor == actor)
    )


def test_every_filter_finds_what_a_look_at_all_finds(jobs):
    _fill(jobs)
    runs = _pages(jobs, limit=1_000)
    assert len(runs) == 2_401
    for text, other in product(TEXTS, OTHERS):
        meant = [run.id for run in runs if _is_meant(run, text, **other)]
        assert [run.id for run in _pages(jobs, text=text, limit=200, **other)] == meant, (text, other)
