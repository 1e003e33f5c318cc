"""The slots of a task worker: threads that run tasks themselves, or each drive a child process.

A thread cannot be killed. A task that runs past its limit in a thread is recorded as timed out and its result is
dropped, but its code goes on beside a new thread until it ends by itself; in a child process it is killed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from loam_lab.connect import Jobs
from loam_lab.core.job import Ending, Failed, Failure
from loam_lab.errors import Fenced
from loam_lab.tasks.current import Current
from loam_lab.tasks.run import Ended, run
from loam_lab.worker.child import Child
from loam_lab.worker.line import Progresses, ServerLine
from loam_lab.worker.stock import Stock, Work


class Slot(threading.Thread):
    """A thread of a pool, and the last task that it took."""

    work: Work | None = None


class Pool:
    """Slots that take from a Stock. Subclasses say how one runs a task."""

    def __init__(self, jobs: Jobs, stock: Stock, progresses: Progresses, *, slots: int) -> None:
        self._jobs = jobs
        self._stock = stock
        self._progresses = progresses
        self._threads = [self._slot(number) for number in range(slots)]

    def start(self) -> None:
        """Begin to take."""
        for thread in self._threads:
            thread.start()

    def stop(self, work: Work) -> None:
        """A task that runs was settled by somebody else: free its slot."""
        raise NotImplementedError

    def is_done(self) -> bool:
        """Whether every slot that is not stuck has ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def _loop(self) -> None:
        raise NotImplementedError

    def _slot(self, number: int) -> Slot:
        return Slot(target=self._loop, name=f"loam-slot-{number}", daemon=True)


class Threads(Pool):
    """Tasks run in threads of the worker: cheap, and good for tasks that wait for others."""

    def stop(self, work: Work) -> None:
        """Put another thread in its place: this one is left alone with the task."""
        work.replaced = True
        work.cancel.set()
        thread = self._slot(len(self._threads))
        self._threads = [*(t for t in self._threads if t.work is not work), thread]
        thread.start()

    def _loop(self) -> None:
        slot = threading.current_thread()
        assert isinstance(slot, Slot)  # noqa: S101 - nobody else runs this
        jobs, stock, progresses = self._jobs, self._stock, self._progresses
        while (work := stock.take()) is not None:
            slot.work = work
            line = ServerLine(jobs, work, progresses)
            try:
                ended: Ended = run(work.name, work.body, Current(work.job_id, work.attempt, line, work.cancel), line)
            except Fenced:
                stock.drop(work)
                continue
            stock.settle(work, ended)
            if work.replaced:
                return


class Processes(Pool):
    """Tasks run in children, one at a time each; a child is replaced after N tasks, or past M megabytes."""

    def __init__(
        self,
        jobs: Jobs,
        stock: Stock,
        progresses: Progresses,
        *,
        slots: int,
        spawn: Callable[[], Child],
        recycle_after: int,
        recycle_mb: int,
    ) -> None:
        super().__init__(jobs, stock, progresses, slots=slots)
        self._spawn = spawn
        self._recycle_after = recycle_after
        self._recycle_bytes = recycle_mb * 1024 * 1024
        self._running: dict[Work, Child] = {}

    def stop(self, work: Work) -> None:
        """Kill the child; the slot gets a new one."""
        child = self._running.get(work)
        if child is not None:
            child.kill()

    def _loop(self) -> None:
        child: Child | None = None
        try:
            # The child is there before a task is taken: its start is no part of the task's time limit.
            while (child := child or self._ready_child()) and (work := self._stock.take()) is not None:
                self._running[work] = child
                try:
                    ended = self._run(child, work)
                finally:
                    self._running.pop(work, None)
                if ended is not None:
                    self._stock.settle(work, ended)
                if self._is_spent(child):
                    child.close()
                    child = None
        finally:
            if child is not None:
                child.close()

    def _ready_child(self) -> Child | None:
        """A child that has loaded the app; None once no more tasks are to be taken."""
        while not self._stock.is_closed:
            child = self._spawn()
            if child.await_ready():
                return child
            print(f"loam worker: a child did not start: {child.how_it_ended()}", file=sys.stderr)  # noqa: T201
            threading.Event().wait(1.0)
        return None

    def _run(self, child: Child, work: Work) -> Ended | Ending | None:
        line = ServerLine(self._jobs, work, self._progresses)
        try:
            ended = child.run(work, line)
        except Fenced:
            child.kill()
            self._stock.drop(work)
            return None
        if ended is None:
            return Failed(Failure("WorkerDied", f"the process that ran it died: {child.how_it_ended()}"), lost=True)
        return ended

    def _is_spent(self, child: Child) -> bool:
        if child.is_dead:
            return True
        if self._recycle_after and child.tasks >= self._recycle_after:
            return True
        return bool(self._recycle_bytes and child.resident_bytes > self._recycle_bytes)
