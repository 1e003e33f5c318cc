"""`loam magics`: the extension is in every kernel, and out again, and no file of a user is lost."""

import os
import stat
import subprocess
import sys

import pytest

from loam_lab.cli import magics

ASKS = "print('loam' in get_ipython().magics_manager.magics['line'])"


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An environment that is not the tests' own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    return tmp_path / "env"


def has_magics(**env):
    """Whether a fresh IPython, as a kernel starts it, has %loam."""
    said = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", ASKS],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return said.stdout.strip().endswith("True")


def test_for_the_user_in_a_real_shell_and_back(home, tmp_path):
    home.env["IPYTHONDIR"] = str(tmp_path / "ipython")
    try:
        assert not has_magics(IPYTHONDIR=home.env["IPYTHONDIR"])
        assert home.here("magics", "enable", "--user").out.startswith("enabled in kernels of this user (")
        assert has_magics(IPYTHONDIR=home.env["IPYTHONDIR"])
        assert home.here("magics", "enable", "--user", "--json").json["changed"] is False
        assert home.here("magics", "status", "--json").json["magics"][1]["enabled"] is True
        assert home.here("magics", "disable", "--user").out.startswith("disabled in")
        assert not list((tmp_path / "ipython").rglob("*loam*"))
        assert home.here("magics", "disable", "--user").out.startswith("already disabled in")
    finally:
        del home.env["IPYTHONDIR"]


def test_for_the_environment_in_a_real_shell(home, prefix, tmp_path):
    """IPython reads the configuration of an environment below its prefix; here the same file by another way."""
    home.here("magics", "enable")
    config = prefix / "etc" / "ipython" / "ipython_config.py"
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(config.read_text())
    assert has_magics(IPYTHONDIR=str(tmp_path / "ipython"))
    home.here("magics", "disable")
    assert not config.exists()


@pytest.mark.parametrize("text", ["c.InteractiveShell.colors = 'NoColor'\n", "x = 1", "", "\n\n"])
def test_what_a_user_wrote_is_there_afterwards(home, prefix, text):
    config = prefix / "etc" / "ipython" / "ipython_config.py"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    config.chmod(0o640)
    home.here("magics", "enable")
    home.here("magics", "enable")
    assert config.read_text().startswith(text)
    assert config.read_text().count("loam_lab") == 1
    compile(config.read_text(), "config", "exec")
    home.here("magics", "disable")
    assert config.read_text().rstrip("\n") == text.rstrip("\n")
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert [path.name for path in config.parent.iterdir()] == [config.name]


def test_what_was_written_below_the_block_stays(home, prefix):
    home.here("magics", "enable")
    config = prefix / "etc" / "ipython" / "ipython_config.py"
    with config.open("a") as file:
        file.write("c.mine = 1\n")
    home.here("magics", "disable")
    assert config.read_text() == "c.mine = 1\n"


def test_a_startup_file_of_that_name_that_is_not_ours_is_refused(home, tmp_path):
    home.env["IPYTHONDIR"] = str(tmp_path / "ipython")
    theirs = tmp_path / "ipython" / "profile_default" / "startup" / "50-loam-lab.py"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine = 1\n")
    try:
        assert "is there and not ours; nothing was changed" in home.here("magics", "enable", "--user", code=1).err
        assert theirs.read_text() == "mine = 1\n"
        home.here("magics", "disable", "--user")
        assert theirs.read_text() == "mine = 1\n"
    finally:
        del home.env["IPYTHONDIR"]


def test_an_environment_that_cannot_be_written_names_the_way_out(home, prefix):
    prefix.write_text("a file")
    assert "For your own kernels only: add --user" in home.here("magics", "enable", code=2).err


def test_the_startup_file_leaves_no_name_behind():
    assert magics._STARTUP.endswith("del _loam")
