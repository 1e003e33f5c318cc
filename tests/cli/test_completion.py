"""Tab in the shell: commands, run ids, queue names, tables; it starts nothing and never fails."""

import os
import shutil
import subprocess
import sys
from unittest.mock import patch

import pytest

SHELLS = ("bash", "zsh", "fish")


def offered(home, *words, **env):
    """What `loam words… <Tab>` offers; the last word is being typed."""
    asked = {"_LOAM_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["loam", *words]), "COMP_CWORD": str(len(words))}
    said = subprocess.run(
        [sys.executable, "-m", "loam_lab.cli"],
        env={**home.env, **asked, **env},
        cwd=home.work,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert said.stderr == ""
    return [line.partition(",")[2] for line in said.stdout.splitlines() if line]


def test_commands_and_options(home):
    assert {"run", "queue", "dead", "doctor"} <= set(offered(home, ""))
    assert offered(home, "run", "wa") == ["watch"]
    assert "--per-second" in offered(home, "dead", "redrive", "--")


def test_run_ids_queues_and_tables_come_from_the_server(home):
    run_id = home.submit(
        "tab.py", "spark.sql('create database if not exists tab')\nspark.range(1).writeTo('tab.le').create()"
    )
    home.ended(run_id)
    home.here("queue", "pause", "tab-queue")
    assert offered(home, "run", "show", run_id[:20]) == [run_id]
    assert offered(home, "run", "cancel", run_id[:20]) == []
    assert offered(home, "run", "retry", run_id[:20]) == [run_id]
    assert offered(home, "queue", "resume", "tab-") == ["tab-queue"]
    assert offered(home, "table", "show", "tab") == ["tab.le"]


def test_without_a_server_nothing_is_offered_and_nothing_starts(home, tmp_path):
    empty = tmp_path / "empty"
    for words in (("run", "show", ""), ("queue", "show", ""), ("table", "show", "")):
        assert offered(home, *words, LOAM_HOME=str(empty)) == []
    assert not empty.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_takes_what_it_is_given(home, shell, tmp_path):
    said = home.here("completion", shell).out
    assert "_LOAM_COMPLETE" in said
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not here")
    script = tmp_path / "script"
    script.write_text(said)
    with patch.dict(os.environ, home.env):
        subprocess.run([program, "-n", str(script)], check=True, timeout=30)


def test_an_unknown_shell_is_refused(home):
    assert "'csh' is not one of" in home.here("completion", "csh", code=2).err
