"""Real kernels on a LOAM_HOME of their own, and what is asked of them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from time import monotonic

from homes import kill
from jupyter_client import KernelManager

from loam_lab import config, connect
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

LOAM = [sys.executable, "-m", "loam_lab.cli"]
RUN = "application/vnd.loam.run.v1+json"


class Home:
    """A LOAM_HOME with whatever runs in it."""

    def __init__(self, path, **settings):
        self.path = path
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LOAM_")}
        self.env = {**kept, "LOAM_HOME": str(path), "NO_COLOR": "1", **settings}
        self._jobs = None

    @property
    def jobs(self):
        if self._jobs is None:
            self._jobs = connect.connect(config.load(env={"LOAM_HOME": str(self.path)}), name="test")
        return self._jobs

    def loam(self, *arguments, timeout=60):
        return subprocess.run([*LOAM, *arguments], env=self.env, capture_output=True, text=True, timeout=timeout)

    def pid(self, name):
        """Of a process that the server tends, or of the server."""
        found = json.loads(self.loam("status", "--json").stdout)
        return next(process["pid"] for process in found["processes"] if process["name"] == name)

    def kill(self, name):
        kill(self.pid(name))

    def runs(self, limit=50):
        return list(self.jobs.list(api.ListRequest(limit=limit)).jobs)

    def get(self, run_id):
        return self.jobs.get(api.GetRequest(job_id=run_id))

    def outputs(self, run_id):
        found = self.jobs.outputs(api.OutputsRequest(job_id=run_id, limit=500)).outputs
        return [json.loads(output.output) for output in found]

    def until(self, run_id, ready, seconds=30):
        """The run once `ready(found)`; its events wake the question."""
        end = monotonic() + seconds
        for _ in self.jobs.watch(api.WatchRequest(job_id=run_id, after="0")):
            found = self.get(run_id)
            if ready(found):
                return found
            assert monotonic() < end, f"still {found.job.state}"
        raise AssertionError("the watch ended")

    def ended(self, run_id, seconds=30):
        return self.until(run_id, lambda found: found.outcome is not None, seconds)

    def down(self):
        """End everything; a server that was killed is started once more to end what it tended."""
        if self.path.exists():
            self.loam("up")
            self.loam("down", "--force")


class Said:
    """What a cell answered: messages in order, the reply, how long it took."""

    def __init__(self, messages, reply, seconds, times):
        self.messages, self.reply, self.seconds, self.times = messages, reply, seconds, times

    @property
    def ok(self):
        return self.reply["status"] == "ok"

    @property
    def error(self):
        """What the user reads where the cell failed."""
        shown = [c for kind, c in self.messages if kind == "error"]
        return "\n".join(["\n".join(c["traceback"]) for c in shown] + [self.text("stderr")])

    def text(self, name="stdout"):
        return "".join(c["text"] for kind, c in self.messages if kind == "stream" and c["name"] == name)

    def of(self, kind):
        return [content for one, content in self.messages if one == kind]

    def displays(self):
        return [c for kind, c in self.messages if kind in ("display_data", "update_display_data")]

    def views(self):
        """The drawings of the run's line, in order."""
        return [c for c in self.displays() if RUN in c["data"]]

    @property
    def view(self):
        return self.views()[-1]["data"]

    @property
    def run_id(self):
        return self.view[RUN]["run_id"]

    @property
    def state(self):
        return self.view[RUN]["state"]

    @property
    def result(self):
        found = self.of("execute_result")
        assert len(found) == 1, self.messages
        return found[0]["data"]


class Kernel:
    """An ipykernel with loam_lab loaded."""

    def __init__(self, home, *, load=True):
        self.home = home
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=home.env, cwd=str(home.path.parent))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(30)
        if load:
            assert self.run("%load_ext loam_lab").ok

    def send(self, code, **options):
        return Asked(self, self.client.execute(code, **options))

    def run(self, code, timeout=60, **options):
        return self.send(code, **options).answer(timeout)

    def spark(self, code, options="", timeout=60):
        return self.run(f"%%loam spark {options}\n{code}", timeout)

    def interrupt(self):
        self.manager.interrupt_kernel()

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Asked:
    """A cell that was sent; `until` waits for a message, `answer` for its end."""

    def __init__(self, kernel, msg_id):
        self.kernel, self.id = kernel, msg_id
        self.began = monotonic()
        self.messages, self.times, self.idle = [], [], False

    def until(self, ready, timeout=30):
        """Read messages until `ready(self)`."""
        end = monotonic() + timeout
        while not ready(self):
            assert not self.idle, f"the cell ended before: {self._last()}"
            self._read(end)
        return self

    def printed(self, text):
        return self.until(lambda a: text in "".join(c.get("text", "") for k, c in a.messages if k == "stream"))

    def moving(self):
        """Wait until the engine works on it: its line has moved for a second."""
        return self.until(lambda a: any("running, 1 s" in _progress_in(c) for _, c in a.messages))

    def leased(self):
        """Wait for the run's id."""
        return self.until(lambda a: any(_id_in(c) for _, c in a.messages)).run_id

    @property
    def run_id(self):
        return next(_id_in(c) for _, c in self.messages if _id_in(c))

    def answer(self, timeout=60):
        end = monotonic() + timeout
        while not self.idle:
            self._read(end)
        seconds = monotonic() - self.began
        while True:
            reply = self.kernel.client.get_shell_msg(timeout=10)
            if reply["parent_header"].get("msg_id") == self.id:
                return Said(self.messages, reply["content"], seconds, self.times)

    def _last(self):
        said = [c.get("text") or c.get("evalue") or c.get("data", {}).get("text/plain") for _, c in self.messages]
        return said[-3:]

    def _read(self, end):
        try:
            message = self.kernel.client.get_iopub_msg(timeout=max(0.01, end - monotonic()))
        except queue.Empty:
            raise AssertionError(f"no more messages in time; the last ones: {self._last()}") from None
        if message["parent_header"].get("msg_id") != self.id:
            return
        kind, content = message["msg_type"], message["content"]
        if kind == "status":
            self.idle = content["execution_state"] == "idle"
        elif kind != "execute_input":
            self.messages.append((kind, content))
            self.times.append(monotonic() - self.began)


def _progress_in(content):
    return content.get("data", {}).get(RUN, {}).get("progress", {}).get("text", "")


def _id_in(content):
    return content.get("data", {}).get(RUN, {}).get("run_id", "")
