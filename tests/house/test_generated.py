"""docs/lifecycle.md says what core/lifecycle.py does."""

import json

import loam_lab
from house import generated


def test_the_table_of_the_lifecycle_is_up_to_date():
    text = generated.DOC.read_text(encoding="utf-8")
    assert generated.with_table(text) == text
    assert generated.table() in text


def test_every_state_is_explained():
    from loam_lab.core.job import State

    text = generated.DOC.read_text(encoding="utf-8").lower()
    assert [state for state in State if f"**{state}" not in text and f"{state}," not in text] == []


def test_the_front_end_has_the_version_of_the_package():
    package = json.loads((generated.ROOT / "labextension" / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == loam_lab.__version__


def test_the_lock_of_the_front_end_names_no_host():
    assert "://" not in (generated.ROOT / "labextension" / "yarn.lock").read_text(encoding="utf-8")
