"""Tasks that tell the test what they do, and wait for its word. `port` is that of the test's Ear."""

import os
import socket
from threading import Event

import loam_lab as loam

__version__ = "7.1"


def _talk(port, word, *, await_answer=False):
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(f"{word} {os.getpid()}\n".encode())
        return line.makefile().readline().strip() if await_answer else ""


@loam.task
def nothing():
    return None


@loam.task
def tally(path, number):
    with open(path, "a") as file:
        file.write(f"{number} {os.getpid()}\n")


@loam.task
def say(port, word):
    _talk(port, word)
    return os.getpid()


@loam.task
def hold(port, word):
    """Runs until the test answers."""
    return _talk(port, word, await_answer=True)


@loam.task
def work_a_while(seconds):
    Event().wait(seconds)
    return os.getpid()


@loam.task(timeout=0.5)
def too_long(port):
    _talk(port, "began")
    Event().wait(30)


@loam.task
def until_cancelled(port):
    here = loam.current()
    here.progress(0.25, "waiting")
    _talk(port, "began")
    while True:
        Event().wait(0.01)
        here.check_cancelled()


@loam.task
def add(a, b=1):
    return a + b


@loam.task
def gather(first, *more, last=0, **rest):
    return [first, list(more), last, rest]


@loam.task
def place(order):
    return order


@loam.task(retries=5, permanent=(ValueError,))
def fail(how):
    if how == "retry":
        raise loam.Retry("not yet", after=60)
    if how == "reject":
        raise loam.Reject("never")
    raise {"value": ValueError, "key": KeyError, "name": NameError, "exit": SystemExit}[how]("no")


@loam.task
def answer(what):
    return {
        "set": {"rows": [{1, 2}]},
        "nan": [float("nan")],
        "object": {"a": {"b": object()}},
        "keys": {1: 2},
        "bytes": b"x",
        "large": "x" * 300_000,
    }[what]


@loam.task(retries=3)
def in_steps(path):
    """Fails once between its steps."""

    def first(n):
        with open(path, "a") as file:
            file.write("first\n")
        return {"n": n + 1, "large": "y" * 300_000}

    found = loam.current().step("first", first, 1)
    if loam.current().attempt == 1:
        raise loam.Retry(after=0.001)
    return [found["n"], len(found["large"])]


@loam.task
def take_memory(megabytes):
    kept.append(bytearray(megabytes * 1024 * 1024))
    return os.getpid()


@loam.task
def die():
    os._exit(7)


@loam.task(retries=2)
def count_attempts():
    if loam.current().attempt < 3:
        raise OSError("again")
    return loam.current().attempt


kept = []
