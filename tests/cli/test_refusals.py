"""A bad submission is refused with the thing and the next step, and nothing is stored."""

import pytest

from loam_lab.rpc.loam.jobs.v1 import service_pb as api

FINE = "print(params)\n"


def stored(home):
    return [job.id for job in home.client().list(api.ListRequest(limit=1000)).jobs]


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        (None, [], ["no file 'job.py' here"]),
        ("def broken(:\n", [], ["job.py, line 1", "invalid syntax"]),
        ("x = 1\nif x:\nprint(x)\n", [], ["job.py, line 3", "expected an indented block"]),
        ("print('a\x00b')\n", [], ["job.py", "null bytes"]),
        (b"\xff\xfe", [], ["cannot be read as a Python file"]),
        (FINE, ["--param", "my-name=1"], ["'my-name' is not a parameter name", "not a digit first"]),
        (FINE, ["--param", "=1"], ["''"]),
        (FINE, ["--param", "alone"], ["'alone' has no value; write NAME=VALUE"]),
        (FINE, ["--queue", "no/such queue"], ["queue", "'no/such queue'"]),
        (FINE, ["--queue", ""], ["queue"]),
        (FINE, ["--tag", "x" * 500], ["tag"]),
        (FINE, ["--timeout", "-1"], ["--timeout"]),
        (FINE, ["--timeout", "nan"], ["--timeout"]),
        (FINE, ["--timeout", "0.0001"], ["--timeout"]),
        (FINE, ["--retries", "-1"], ["--retries"]),
        (FINE, ["--retires", "1"], ["No such option", "--retries"]),
        (FINE, ["--name", ""], ["name"]),
        (FINE, ["second.py"], ["unexpected extra argument"]),
    ],
)
def test_a_bad_submission_is_refused_and_nothing_is_stored(home, text, more, words):
    file = home.work / "job.py"
    file.unlink(missing_ok=True)
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = stored(home)

    said = home.here("run", "submit", "job.py", *more, code=2)

    for word in words:
        assert word in said.err, said
    assert "Traceback" not in said.err
    assert stored(home) == before


def test_a_folder_is_not_a_file(home):
    (home.work / "folder.py").mkdir(exist_ok=True)
    assert "'folder.py' is a folder" in home.here("run", "submit", "folder.py", code=2).err


def test_parameters_arrive_typed_and_are_never_code(home):
    given = {
        "whole": "3",
        "part": "2.5",
        "yes": "true",
        "none": "null",
        "many": '[1, "b"]',
        "text": "hello world",
        "quoted": '"3"',
        "evil": "__import__('os').system('touch pwned')",
        "equals": "a=b",
        "empty": "",
        "umlaut": "grün",
    }
    options = [word for name, value in given.items() for word in ("--param", f"{name}={value}")]
    said = home.loam("run", "submit", home.file("typed.py", "print(repr(params))\n"), *options, "--wait")
    assert said.out.strip() == repr(
        {
            "whole": 3,
            "part": 2.5,
            "yes": True,
            "none": None,
            "many": [1, "b"],
            "text": "hello world",
            "quoted": "3",
            "evil": "__import__('os').system('touch pwned')",
            "equals": "a=b",
            "empty": "",
            "umlaut": "grün",
        }
    )
    assert not (home.work / "pwned").exists()
