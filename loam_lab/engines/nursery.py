"""`python -m loam_lab.engines.nursery --control FD`: import once what every child needs, then fork a child on request.

FD is one end of a socket pair of whole messages, each a JSON object; a request brings three descriptors along:

    parent -> nursery   {cwd, env} + (control, stdout, stderr)
    nursery -> parent   {ready} once · {pid} or {error} to each request, in order · {ended: pid, code}

The rule kept here: this process opens no connection and starts no Python thread, so that a fork is a clean start.
The threads of OpenBLAS and Arrow that imports bring know how to be forked. It ends when its parent does.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

_MODULES = (
    "loam_lab.engines.child",
    "loam_lab.engines.runcell",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.client.retries",
    "pyspark.sql.connect.client.reattach",
    "pyspark.sql.functions",
    "cloudpickle",
    "asyncio",
    "multiprocessing.pool",
)
MOST_BYTES = 1024 * 1024


def main(argv: Sequence[str] | None = None) -> None:
    """Run until the parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m loam_lab.engines.nursery")
    parser.add_argument("--control", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args(argv).control)
    for name in _MODULES:
        with contextlib.suppress(Exception):  # an environment without it does without it
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        importlib.import_module("loam_lab.engines.runcell").prepare()
    gc.collect()
    gc.freeze()
    _say(control, {"ready": True})
    _serve(control)


def _serve(control: socket.socket) -> None:
    ended, wakes = socket.socketpair()
    for end in (ended, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        ready.register(ended, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is ended:
                    with contextlib.suppress(BlockingIOError):
                        ended.recv(4096)
                    _reap(control)
                elif not _fork_one(control):
                    return


def _fork_one(control: socket.socket) -> bool:
    """Fork a child for one request; False when the parent is gone."""
    try:
        text, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 3)
    except OSError:
        return False
    if not text:
        return False
    request = json.loads(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: see above
            pid = os.fork()
    except OSError as error:
        _say(control, {"error": str(error)})
    else:
        if pid == 0:
            _be_child(request, list(descriptors))
        _say(control, {"pid": pid})
    for descriptor in descriptors:
        os.close(descriptor)
    return True


def _be_child(request: Mapping[str, Any], descriptors: list[int]) -> None:
    """What a fresh child would be: a session of its own, its place, its environment, and none of our descriptors."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        control, out, err = descriptors
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number not in descriptors:
                with contextlib.suppress(OSError):  # the list's own
                    os.close(number)
        for descriptor, target in ((out, 1), (err, 2)):
            os.dup2(descriptor, target)
            os.close(descriptor)
        sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
        os.environ.clear()
        os.environ.update(request["env"])
        if request.get("cwd"):
            os.chdir(request["cwd"])
        child = sys.modules["loam_lab.engines.child"]
        child.serve(socket.socket(fileno=control))
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(1)


def _reap(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say(control, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(control: socket.socket, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
