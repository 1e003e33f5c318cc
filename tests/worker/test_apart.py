"""What a child can get at: nothing of the server but its own attempt, and as another user nothing at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import json, os
found = {"environ": dict(os.environ), "cmdline": open("/proc/self/cmdline").read(), "fds": {}}
found["proc_environ"] = open("/proc/self/environ").read()
for fd in os.listdir("/proc/self/fd"):
    try: found["fds"][fd] = os.readlink(f"/proc/self/fd/{fd}")
    except OSError: pass
print("FOUND" + json.dumps(found))
"""


@pytest.mark.parametrize("name", ["look.ipy", "look.py"])
def test_environment_arguments_and_descriptors_hold_no_token(home, name):
    run_id = home.submit(name, LOOK)
    home.ended(run_id)
    text = home.text(run_id)
    found = json.loads(text[text.index("FOUND") + 5 :])
    secrets = [(home.path / file).read_text().strip() for file in ("token", "catalog.token")]
    everything = json.dumps(found)
    assert not [one for one in secrets if one in everything]
    # The mark by which orphans are found is a folder's name, and no secret.
    assert [key for key in found["environ"] if key.startswith("LOAM_")] in ([], ["LOAM_PROGRAM_OF"])
    # Standard input, output, error, the socket to the parent, the engine's; nothing of the home.
    assert not [target for target in found["fds"].values() if target.startswith(str(home.path))]
    assert sum(target.startswith("pipe:") for target in found["fds"].values()) <= 6


PRY = """
import glob, json, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
home, pids = sys.argv[1], sys.argv[2:]
got = []
for path in [home, *(os.path.join(home, n) for n in ("token", "catalog.token", "jobs.db", "server.json", "run", "warehouse"))]:
    try: got.append((path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(10).hex()))
    except OSError: pass
for pid in pids:
    for name in ("environ", "fd", "mem", "maps"):
        path = f"/proc/{pid}/{name}"
        try: got.append((path, os.listdir(path) if name == "fd" else len(open(path, "rb").read(10))))
        except OSError: pass
    got += [(f"/proc/{pid}/cmdline", open(f"/proc/{pid}/cmdline", "rb").read().decode("utf-8", "replace"))]
print(json.dumps(got))
"""  # noqa: E501 - a program


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can become another user")
def test_another_user_gets_nothing_of_home_or_proc(home):
    """As workers of another OS user are: files and processes of the server's user yield nothing but command lines."""
    run_id = home.submit("wait.py", "import time\nprint('up', flush=True)\ntime.sleep(5)\n")
    home.running(run_id)
    pids = [str(process.pid) for process in home.processes("loam_lab")]
    assert len(pids) >= 3  # server, worker, child

    said = subprocess.run(
        [sys.executable, "-c", PRY, str(home.path), *pids], capture_output=True, text=True, check=True
    ).stdout
    got = json.loads(said)

    secrets = [(Path(home.path) / file).read_text().strip() for file in ("token", "catalog.token")]
    assert [path for path, _ in got if not path.endswith("cmdline")] == []
    assert not [one for one in secrets if one in said]
    home.ended(run_id)
