"""`python -m loam_lab.engines.child --control FD`: run one Python file or cell as one attempt, in a process of its own.

FD is one end of a socket pair; messages are JSON lines, each an object with one key:

    parent -> child   request {program, engine, remote, session_id, user, table_format, environment}
                      then  go · cancel · enough (no more output is kept)
                      ack ID  |  refused {id, message}                       the answers to write_started
    child -> parent   ready · progress {..} · output {..} · log {stream, text} · write_started {id, table} ·
                      write_ended {id} · cancelling (asked; the engine has not answered) · over (the program has ended;
                      the engine may not have answered) · result {..} (the last one)

Standard output and error are pipes that the parent reads, so that nothing of them is lost with the child. The rule
kept here: nothing runs before `go` (the parent extends the lease between `ready` and it), no write before its `ack`,
and a parent that is gone means: stop what runs in the engine, and leave.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from loam_lab import errors
from loam_lab.engines import channel, faults, interrupt, limits, progress, runfile, session, writes
from loam_lab.engines.base import Program, Progress, Result, RunError

if TYPE_CHECKING:
    from loam_lab.engines.streams import Stream

QUIET_SECONDS = 600.0
PARENT_GONE = 70


class Child:
    """The conversation with the parent, and the Report of the program that runs."""

    def __init__(self, line: channel.Channel) -> None:
        self._line = line
        self._answers: dict[str, tuple[threading.Event, list[str]]] = {}
        self._go = threading.Event()
        self._got_request = threading.Event()
        self._request: Mapping[str, Any] = {}
        self._running = False
        self._spark: Any = None
        self._interrupter: Any = None
        self._is_broken_off = False
        self._streams: tuple[Stream, ...] = ()
        self._is_full = False
        self.cancelled = self.is_orphan = False

    # -- the Report, spoken to the parent --

    @property
    def is_full(self) -> bool:
        """Whether the parent keeps no more output."""
        return self._is_full

    def progress(self, progress: Progress) -> None:
        self._line.send({"progress": channel.from_progress(progress)})

    def output(self, output: Mapping[str, Any]) -> None:
        if not self._is_full:
            self._line.send({"output": dict(output)})

    def log(self, stream: str, text: str) -> None:
        self._line.send({"log": {"stream": stream, "text": text}})

    def write_started(self, write_id: str, table: str | None) -> None:
        answered, refusal = self._answers[write_id] = (threading.Event(), [])
        self._line.send({"write_started": {"id": write_id, "table": table}})
        try:
            answered.wait()
        finally:
            del self._answers[write_id]
        if refusal:
            raise errors.Fenced(refusal[0])

    def write_ended(self, write_id: str) -> None:
        self._line.send({"write_ended": {"id": write_id}})

    # -- the run --

    def run(self) -> Result:
        """Open the session, wait for `go`, run the program; give its result once the engine is quiet."""
        threading.Thread(target=self._listen, name="loam-control", daemon=True).start()
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        os.register_at_fork(after_in_child=self._be_nobody)
        self._got_request.wait()
        program = channel.to_program(self._request["program"])
        _take_place(self._request, program)
        try:
            given = self._open() if self._request.get("engine") == "spark" else {}
        except errors.LoamError as error:
            kind = type(error).__name__
            return Result.failed(RunError(kind, str(error), transient=isinstance(error, errors.Unavailable)))
        self._line.send({"ready": True})
        self._go.wait()
        if self.cancelled:
            return Result(ok=False, cancelled=True)
        result = self._guarded(program, given)
        self._line.send({"over": True})  # from here on it is the engine that is waited for
        self._await_quiet()
        return result

    def _guarded(self, program: Program, given: Mapping[str, Any]) -> Result:
        self._running = True
        try:
            result = self._run_cell(program, given) if program.kind == "cell" else runfile.run(program, given)
            self._running = False
            return result
        except MemoryError:
            self._running = False
            return Result.failed(limits.error(int(self._request.get("memory_bytes") or 0)))
        except BaseException as error:  # a KeyboardInterrupt of ours may come at any step
            self._running = False
            return Result.failed(faults.classify(error, interrupted=self.cancelled, path=program.path or None))

    def _run_cell(self, program: Program, given: Mapping[str, Any]) -> Result:
        from loam_lab.engines import runcell  # half a second; files do without

        return runcell.run(
            program,
            given,
            publish=self.output,
            log=self.log,
            on_streams=self._note_streams,
            is_cancelled=lambda: self.cancelled,
        )

    def _note_streams(self, streams: tuple[Stream, ...]) -> None:
        self._streams = streams

    def _open(self) -> dict[str, Any]:
        request = self._request
        remote, user = request["remote"], request.get("user") or "loam"
        table_format = request.get("table_format")
        self._spark = session.open_session(remote, request["session_id"], user=user, table_format=table_format)
        self._interrupter = interrupt.Interrupter(self._spark, remote)
        self._interrupter.install()
        writes.watch(self._spark, lambda: self, interrupter=self._interrupter)
        ticker = progress.Ticker(self.progress)
        self._spark.registerProgressHandler(ticker)
        ticker.start()
        return {"spark": self._spark}

    def _await_quiet(self) -> None:
        """A cancelled run has ended only when the engine has answered; the parent sees `cancelling` until then."""
        if self._interrupter is None:
            return
        answers = self._interrupter.pending()
        if self.cancelled:
            answers.append(self._interrupter.interrupt())  # what was sent while the first interrupt was answered
        for answer in answers:
            with contextlib.suppress(Exception):
                answer.result(QUIET_SECONDS)

    # -- what comes from outside --

    def _listen(self) -> None:
        for message in self._line:
            for verb, body in message.items():
                self._hear(verb, body)
        self._parent_gone()

    def _hear(self, verb: str, body: Any) -> None:
        if verb == "request":
            self._request = body
            self._got_request.set()
        elif verb == "go":
            self._go.set()
        elif verb == "cancel":
            self._cancel()
        elif verb == "enough":
            self._is_full = True
            for stream in self._streams:
                stream.stop_keeping()
        elif verb in ("ack", "refused"):
            write_id = body if verb == "ack" else body["id"]
            if write_id in self._answers:
                answered, refusal = self._answers[write_id]
                if verb == "refused":
                    refusal.append(body["message"])
                answered.set()

    def _cancel(self) -> None:
        """Stop the engine from here, whatever the program has made of its signals; then break off the program."""
        self.cancelled = True
        self._go.set()
        self._line.send({"cancelling": True})
        if self._interrupter is not None:
            self._interrupter.interrupt()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Runs in the main thread, so that it breaks off a blocking call of the program."""
        if number == signal.SIGTERM and not self.cancelled:
            threading.Thread(target=self._cancel, name="loam-cancel", daemon=True).start()
        elif self._running and not self._is_broken_off:
            self._is_broken_off = True  # once: a second one would break off what ends the run
            raise KeyboardInterrupt

    def _be_nobody(self) -> None:
        """In a process that the program forked: signals are its own again, and nothing of ours is spoken for it."""
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, usual)

    def _parent_gone(self) -> None:
        """Send nothing more, then stop what was sent: an operation may reach the engine after the first interrupt."""
        self.is_orphan = True
        if self._spark is not None:
            with contextlib.suppress(Exception):
                self._spark.client._channel.close()
                for _ in range(2):
                    threading.Event().wait(interrupt.ARRIVAL_SECONDS)
                    self._interrupter.interrupt().result(QUIET_SECONDS)
        os._exit(PARENT_GONE)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the child; it leaves without Python's end, which may wait for a client's threads for minutes."""
    parser = argparse.ArgumentParser(prog="python -m loam_lab.engines.child")
    parser.add_argument("--control", type=int, required=True)
    serve(socket.socket(fileno=parser.parse_args(argv).control))


def serve(control: socket.socket) -> None:
    """Run one attempt and leave the process."""
    owner = os.getpid()
    line = channel.Channel(control)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    child = Child(line)
    result = child.run()
    if os.getpid() != owner:  # a process that the program forked, and that came to the program's end
        os._exit(0)
    if child.is_orphan:  # the program broke off with the connection: whoever stops the engine leaves the process
        threading.Event().wait()
    if result.ok:
        _join_threads()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    line.send({"result": channel.from_result(result)})
    os._exit(0)


def _take_place(request: Mapping[str, Any], program: Program) -> None:
    """Be the submitter's Python: its `sys.path`, and the variables that it named. Values come by this road only."""
    os.environ.update(request.get("environment") or {})
    wanted = [entry or os.getcwd() for entry in program.options.get("sys_path") or ()]
    if wanted:
        sys.path[:] = [*wanted, *(entry for entry in sys.path if entry not in wanted)]
    limits.apply(int(request.get("memory_bytes") or 0))
    random.seed()
    if "numpy" in sys.modules:  # a prepared process has the same state in each of its forks
        sys.modules["numpy"].random.seed()


def _join_threads() -> None:
    """Wait for the program's own threads, as Python does at its end; not for pools, whose calls may hang."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon and "ThreadPool" not in thread.name:
            thread.join()


if __name__ == "__main__":
    main()
