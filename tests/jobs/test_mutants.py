"""The checkers are checked: each way of breaking a promise must be caught by the tests that guard it.

A mutant is a copy of the package with one line changed. It is caught if one of its tests fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = "tests/jobs/test_model.py::TestModel"
LIFECYCLE = "tests/jobs/test_lifecycle.py"
FIELDS = "tests/jobs/test_fields.py"
TOGETHER = "tests/jobs/test_together.py"
CRASHES = "tests/jobs/test_crashes.py"
KEYS = "tests/jobs/test_keys.py"
STEPS = "tests/jobs/test_steps.py"
QUEUES = "tests/jobs/test_queues.py"
CORNERS = "tests/jobs/test_store_corners.py"
LIKENESS = "tests/core/test_likeness.py"
PARKED = "tests/server/test_parked.py"
FRESH = "tests/server/test_fresh.py"
RETENTION = "tests/jobs/test_retention.py"
TICKING = "tests/schedules/test_ticking.py"

# name: (file, text, what stands there instead, tests that must catch it)
MUTANTS = {
    "fence dropped": (
        "core/lifecycle.py",
        "    if job.epoch != token.epoch:\n",
        "    if False:\n",
        [LIFECYCLE],
    ),
    "holder not checked": (
        "core/lifecycle.py",
        "    if job.state is not State.RUNNING or job.hold is not Hold.NONE:\n",
        "    if False:\n",
        [MODEL, LIFECYCLE],
    ),
    "answer before commit": (
        "store/sqlite.py",
        '            self._failpoint("before_commit")\n',
        """            for answer, result in done:
                answer(result)
            done = []
            self._failpoint("before_commit")
""",
        [CRASHES],
    ),
    "sweep without epoch": (
        "core/lifecycle.py",
        '    epoch = job.epoch if happening != "sweep" else job.epoch + 1\n',
        "    epoch = job.epoch\n",
        [MODEL],
    ),
    "stalled without epoch": (
        "core/lifecycle.py",
        "State.RUNNING, hold=Hold.STALLED, epoch=job.epoch + 1,",
        "State.RUNNING, hold=Hold.STALLED, epoch=job.epoch,",
        [LIFECYCLE],
    ),
    "release uses an attempt up": (
        "core/lifecycle.py",
        "attempts=job.attempts - 1)",
        "attempts=job.attempts)",
        [MODEL],
    ),
    "losses counted as failures": (
        "core/lifecycle.py",
        "**_UNLEASED, losses=job.losses + 1, error",
        "**_UNLEASED, failures=job.failures + 1, error",
        [MODEL],
    ),
    "repeat not recognised": (
        "server/calls.py",
        "            if found := tx.request(who.namespace, request_id):\n",
        "            if found := None:\n",
        [LIFECYCLE],
    ),
    "no grace after sleep": (
        "server/scheduler.py",
        "        if slept:\n",
        "        if False:\n",
        [LIFECYCLE],
    ),
    "quiet not awaited": (
        "core/lifecycle.py",
        "    if job.engine_open:\n",
        "    if False:\n",
        [LIFECYCLE],
    ),
    "clock may go back": (
        "store/sqlite.py",
        "self._last_now = max(self._clock(), self._last_now)",
        "self._last_now = self._clock()",
        [LIFECYCLE],
    ),
    "key forgets its payload": ("store/keys.py", "    if digest != new.digest:\n", "    if False:\n", [KEYS]),
    "fenced attempt records a step": (
        "server/steps.py",
        "    lifecycle.check_fence(job, token)\n    return job",
        "    return job",
        [STEPS],
    ),
    "turns not taken": ("core/picking.py", "(active + 1, following.rank", "(active, following.rank", [QUEUES]),
    "synchronous is normal": ("store/sqlite.py", "synchronous = FULL", "synchronous = NORMAL", [CRASHES]),
    "fence of many dropped": (
        "store/queries/jobs.sql",
        "j.epoch = :epoch AND j.attempt_epoch = :epoch",
        ":epoch = :epoch",
        [TOGETHER, MODEL],
    ),
    "said twice, ended twice": (
        "server/wire.py",
        "    if len(set(job_ids)) < len(job_ids):\n",
        "    if False:\n",
        [FIELDS],
    ),
    "some of many are enough": (
        "store/write.py",
        "        if self.execute(query, {**rows.alike(after), **fence}) != len(same.seqs):\n",
        "        if not self.execute(query, {**rows.alike(after), **fence}):\n",
        [CORNERS],
    ),
    "attempts are alike in any number": (
        "core/job.py",
        "        return self.epoch, self.attempts\n",
        "        return self.epoch, 0\n",
        [LIKENESS],
    ),
    "a wait that is over loses its job": (
        "server/signals.py",
        "        if self.leave(parked):\n            parked.answer.settle(None)\n",
        "        parked.answer.settle(None)\n",
        [PARKED],
    ),
    "a newcomer goes before those who waited": (
        "server/attempts.py",
        "    if not is_theirs or any(tx.any_ready(job.namespace, queue) for queue in wanted):\n",
        "    if not is_theirs:\n",
        [FRESH],
    ),
    "a newcomer is handed to two": (
        "server/attempts.py",
        "    if fresh is None or fresh.lease is not None:\n",
        "    if fresh is None:\n",
        [FRESH],
    ),
    "a newcomer is handed to another tenant": (
        "server/attempts.py",
        "    is_theirs = job.namespace == who.namespace and ",
        "    is_theirs = ",
        [FRESH],
    ),
    "a newcomer passes the limits of its queue": (
        "server/jobs.py",
        "                (tx.bring if are_open else tx.add_all)(accepted)\n",
        "                tx.bring(accepted)\n",
        [FRESH],
    ),
    "a newcomer is not there for the next operation": (
        "store/sqlite.py",
        "                if place < asked:\n                    tx.store_fresh()\n",
        "",
        [FRESH],
    ),
    "an outcome leaves its tick open": (
        "store/write.py",
        "            self._end_ticks(seqs)\n",
        "",
        [TICKING],
    ),
    "jobs of other tenants are accepted as one": (
        "server/specs.py",
        "        spec.limit_key,\n        spec.expires_at_ms,\n",
        "        spec.expires_at_ms,\n",
        [LIKENESS],
    ),
    "tidying up never rests": (
        "server/tidy.py",
        "            self._rest(max(_REST_S, _REST * (time.perf_counter() - begun)))\n",
        "",
        [RETENTION],
    ),
    "half of what runs together is kept": (
        "store/sqlite.py",
        '                    self._take_back("ROLLBACK")\n                    for',
        '                    self._db.execute("COMMIT")\n                    for',
        [CRASHES],
    ),
    "what was taken back is still known": (
        "store/sqlite.py",
        "        self._known.forget()\n",
        "",
        [CORNERS],
    ),
    "another writer is not noticed": (
        "store/sqlite.py",
        "            self._known.check(self._db)\n",
        "",
        [CORNERS],
    ),
    "a name that was purged is still known": (
        "store/write.py",
        '        self.execute("forget_name", {"id": name_id})\n        self.known.forget()\n',
        '        self.execute("forget_name", {"id": name_id})\n',
        [CORNERS],
    ),
    "one failing operation takes others along": (
        "store/sqlite.py",
        '                self._take_back("ROLLBACK TO operation")\n',
        "",
        [CRASHES],
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_line_that_a_mutant_changes_is_there(name):
    file, text, _, _ = MUTANTS[name]
    assert (ROOT / "loam_lab" / file).read_text(encoding="utf-8").count(text) == 1


@pytest.mark.faults
@pytest.mark.parametrize("name", MUTANTS)
def test_no_mutant_survives(tmp_path, name):
    file, text, instead, guards = MUTANTS[name]
    shutil.copytree(ROOT / "loam_lab", tmp_path / "loam_lab", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "loam_lab" / file
    source = path.read_text(encoding="utf-8")
    path.write_text(source.replace(text, instead), encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not faults", *guards],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert ran.returncode == 1, f"{name} survived:\n{ran.stdout[-2000:]}{ran.stderr[-500:]}"
    assert "FAILED" in ran.stdout
