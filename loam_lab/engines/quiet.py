"""Stop all that an earlier attempt left running: `python -m loam_lab.engines.quiet --remote URL --deadline SECONDS`.

Opens the session's id, interrupts everything in it, awaits the engine's answer and only then releases the id, which
refuses it for good. The rule kept here: the session id is a secret, so it comes in LOAM_SESSION_ID or as a line on
standard input, never on the command line. One JSON line on standard output says what was done.

Exit: 0 quiet · 3 the engine is not reachable, so nothing runs there · 4 no answer before the deadline · 2 bad call.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from time import monotonic

from loam_lab import errors
from loam_lab.engines import wire

QUIET, BAD_CALL, UNREACHABLE, DEADLINE = 0, 2, 3, 4
SESSION_VARIABLE = "LOAM_SESSION_ID"


def quiet(
    remote: str, session_id: str, *, user: str = "loam", deadline_seconds: float, light: bool = False
) -> list[str]:
    """Stop and release the session; gives the ids of the operations that were stopped.

    A session that is released already is quiet.

    Raises:
        Unavailable: the engine is not reachable.
        TimeoutError: it did not answer in time; what runs there may still commit.
    """
    end = monotonic() + deadline_seconds
    wire.probe(remote, deadline_seconds=min(1.0, deadline_seconds))
    with wire.Wire(remote, session_id, user=user, light=light) as line:
        try:
            line.open(deadline_seconds=end - monotonic())
        except errors.EngineError as error:
            if "is not running" in str(error):
                return []
            raise
        stopped = line.interrupt(deadline_seconds=max(0.05, end - monotonic()))
        line.release(deadline_seconds=max(0.5, end - monotonic()))
    return stopped


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m loam_lab.engines.quiet")
    parser.add_argument("--remote", required=True)
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds")
    parser.add_argument("--user", default="loam")
    asked = parser.parse_args(argv)
    session_id = os.environ.pop(SESSION_VARIABLE, "") or sys.stdin.readline().strip()
    if not session_id:
        return _say(BAD_CALL, "bad_call", f"no session id in {SESSION_VARIABLE} or on standard input")
    try:
        stopped = quiet(asked.remote, session_id, user=asked.user, deadline_seconds=asked.deadline, light=True)
    except errors.Unavailable as error:
        return _say(UNREACHABLE, "unreachable", str(error))
    except TimeoutError as error:
        return _say(DEADLINE, "deadline", str(error))
    except errors.LoamError as error:
        return _say(BAD_CALL, "error", str(error))
    return _say(QUIET, "quiet", f"{len(stopped)} stopped")


def _say(code: int, state: str, message: str) -> int:
    sys.stdout.write(json.dumps({"state": state, "message": message}) + "\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
