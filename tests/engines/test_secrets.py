"""Secrets by reference: the three places, read for real, and what is refused."""

import sys

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from keyrings.alt.file import PlaintextKeyring

from loam_lab.engines import secrets
from loam_lab.errors import Invalid


@pytest.fixture
def ring(tmp_path):
    before = keyring.get_keyring()
    made = PlaintextKeyring()
    made.file_path = str(tmp_path / "keyring.cfg")
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def read(text, **environment):
    return secrets.value(*secrets.reference(text), environment=environment)


def test_a_variable():
    assert read("TOKEN", TOKEN="abcdef") == "abcdef"
    assert read("TOKEN=env:OTHER", OTHER="abcdef") == "abcdef"


def test_a_file(tmp_path):
    (tmp_path / "token").write_text("abcdef\n")
    assert read(f"TOKEN=file:{tmp_path}/token") == "abcdef"


def test_a_keyring(ring):
    ring.set_password("warehouse/main", "me", "abcdef")
    assert read("TOKEN=keyring:warehouse/main/me") == "abcdef"


def test_what_a_keyring_does_not_have_is_named(ring):
    with pytest.raises(Invalid, match="the keyring has none for 'me' at 'warehouse'"):
        read("TOKEN=keyring:warehouse/me")


def test_a_keyring_that_fails_is_said_in_words(ring):
    keyring.set_keyring(NoKeyring())
    with pytest.raises(Invalid, match="TOKEN cannot be read from the keyring: No recommended backend"):
        read("TOKEN=keyring:warehouse/me")


def test_without_the_package_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(Invalid, match="pip install keyring"):
        read("TOKEN=keyring:warehouse/me")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TOKEN", "TOKEN"),
        ("TOKEN=env:NOT_SET", "NOT_SET"),
        ("TOKEN=file:/nowhere/token", "cannot be read from '/nowhere/token'"),
        ("TOKEN=abcdef", "takes a place, not a value"),
        ("TOKEN=keyring:warehouse", "names no user"),
        ("TO KEN", "is not a name of a variable"),
    ],
)
def test_refused(text, said):
    with pytest.raises(Invalid, match=said) as refused:
        read(text)
    assert "abcdef" not in str(refused.value)


def test_one_that_is_too_short_to_be_blotted_out_is_refused():
    with pytest.raises(Invalid, match="too short to be blotted out"):
        read("TOKEN", TOKEN="abc")
