"""Have an engine session quieted by a short-lived child. Stdlib only: the server calls it and imports no engine."""

from __future__ import annotations

import os
import subprocess

from loam_lab import config

QUIET_S = 60.0


def quiet_by_child(python: str, remote: str, session_id: str, *, deadline_s: float = QUIET_S) -> tuple[bool, str]:
    """Stop all that the session runs. (True, "") once nothing runs there; else (False, why not yet).

    An engine that cannot be reached runs nothing.
    """
    try:
        answer = subprocess.run(
            [python, "-m", "loam_lab.engines.quiet", "--remote", remote, "--deadline", str(deadline_s)],
            input=session_id + "\n",  # a secret: never on a command line
            capture_output=True,
            text=True,
            timeout=deadline_s + 30,
            check=False,
            env={**os.environ, **config.past_proxies(os.environ)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    if answer.returncode in (0, 3):
        return True, ""
    return False, answer.stdout.strip() or answer.stderr.strip()[-500:]
