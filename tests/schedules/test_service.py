"""The server as a systemd unit: what is written, what systemctl is asked to do, and what Status says of it.

There is no bus of a user here, so a stand-in answers for systemctl: it notes what it is asked, and does to the files
what `enable` and `disable` do.
"""

from pathlib import Path

import pytest
from homes import Home

from loam_lab import unit
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$HOME/asked"
units="$HOME/.config/systemd/user"
case "$2" in
  enable) mkdir -p "$units/default.target.wants"; ln -sf "$units/$4" "$units/default.target.wants/$4" ;;
  disable) rm -f "$units/default.target.wants/$4" ;;
esac
"""


@pytest.fixture
def home(tmp_path, request):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(getattr(request, "param", SYSTEMCTL))
    (programs / "systemctl").chmod(0o755)
    one = Home(tmp_path)
    one.env["PATH"] = f"{programs}:{one.env['PATH']}"
    one.env.pop("XDG_CONFIG_HOME", None)
    yield one
    one.close()


def is_always_on(home):
    return home.client().status(api.StatusRequest()).always_on


def test_a_unit_that_is_installed_serves_this_home_and_status_says_so(home):
    home.here("up")
    assert not is_always_on(home)
    assert "no login starts it; to have that: loam service install" in home.here("status").out

    said = home.here("service", "install", "--json").json

    assert f'-m loam_lab.cli --home "{home.path}" up --foreground --keep' in Path(said["unit"]).read_text()
    user = Path(home.env["HOME"])
    assert (user / "asked").read_text().splitlines() == ["--user daemon-reload", f"--user enable --now {unit.NAME}"]
    assert is_always_on(home)
    assert "each login starts it" in home.here("status").out

    home.here("service", "remove")

    assert not is_always_on(home)
    assert not Path(said["unit"]).exists()
    assert f"--user disable --now {unit.NAME}" in (user / "asked").read_text()
    assert "no unit is installed" in home.here("service", "remove", code=None).err


def test_a_unit_that_is_only_written_or_serves_another_home_starts_nothing(home, tmp_path):
    home.here("up")
    home.here("service", "install", "--no-start")
    assert not is_always_on(home)
    home.here("--home", str(tmp_path / "other"), "service", "install")
    assert not is_always_on(home)


@pytest.mark.parametrize("home", ["#!/bin/sh\necho 'no bus' >&2; exit 1\n"], indirect=True)
def test_a_unit_that_cannot_be_started_is_said_with_the_reason(home):
    said = home.here("service", "install", code=None)
    assert said.code != 0
    assert "is written, but systemctl --user daemon-reload failed: no bus" in said.err


def test_a_home_with_odd_letters_is_quoted_as_systemd_reads_it():
    text = unit.text("/a b/python", Path('/h "x" 100%/$y'))
    assert '"/a b/python" -m loam_lab.cli --home "/h \\"x\\" 100%%/$$y" up' in text
