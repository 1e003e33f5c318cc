"""Text for a terminal is cut to its width and cannot steer it; text for a pipe is whole."""

import json
import os
import subprocess
import sys

import pytest

from loam_lab.cli import out, typed, words
from loam_lab.errors import Invalid

ROWS = [["a-name", "short", "a text that is much longer than the others"], ["b", "漢字漢字", "tab\there \x1b[31m"]]


@pytest.mark.parametrize("most", [0, 40, 50, 60, 200])
def test_columns_stay_within_their_width_and_in_line(most):
    lines = out.columns(ROWS, ["NAME", "STATE", "TEXT"], most=most).splitlines()
    assert len(lines) == 3
    assert all(not most or out.places(line) <= most for line in lines)
    starts = {out.places(line[: line.index(word)]) for line, word in zip(lines, ("TEXT", "a t", "tab"), strict=True)}
    assert len(starts) == 1
    assert "a-name" in lines[1]
    assert ("…" in lines[1]) == (0 < most < 60)


def test_a_width_too_small_for_all_keeps_the_names():
    lines = out.columns(ROWS, ["NAME", "STATE", "TEXT"], most=5).splitlines()
    assert lines[1].startswith("a-name")


@pytest.mark.parametrize(("text", "most", "said"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字漢字", 5, "漢字…")])
def test_a_cut_text_says_so(text, most, said):
    assert out.cut(text, most) == said


def test_a_combining_letter_takes_no_place():
    assert out.places("e\u0301") == 1


def test_control_characters_are_spelled_out_everywhere(capsys):
    out.print_table([["x\x1b[2J", "a\tb\nc"]], ["A", "B"])
    out.print_json({"x": "\x9b2J\u202e\U000e0001", "y": "grün"})
    table, record = capsys.readouterr().out.strip().rsplit("\n", 1)
    assert table == "A\tB\nx\\x1b[2J\ta\\x09b\\x0ac"
    assert record == '{"x": "\\u009b2J\\u202e\\udb40\\udc01", "y": "grün"}'
    assert json.loads(record)["x"] == "\x9b2J\u202e\U000e0001"


def test_a_pipe_has_whole_values_where_a_terminal_has_short_ones(capsys):
    out.print_table([[("01a2…", "01a2-whole"), ("now", "2026-11-29 10:00:00 UTC")]], ["RUN", "WHEN"])
    assert capsys.readouterr().out == "RUN\tWHEN\n01a2-whole\t2026-11-29 10:00:00 UTC\n"


@pytest.mark.parametrize(
    ("text", "terminal", "pipe"),
    [
        ("plain\n", "plain\n", "plain\n"),
        ("\x1b[1;31mred\x1b[0m\n", "\x1b[1;31mred\x1b[0m\n", "red\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"),
        ("\x1b[2Jgone", "\\x1b[2Jgone", "\\x1b[2Jgone"),
        (" 10%\r 50%\r100%\n", " 10%\r 50%\r100%\n", "100%\n"),
        ("a\r\nb\r", "a\nb\r", "a\nb"),
    ],
)
def test_what_a_program_prints_keeps_its_colours_on_a_terminal_only(text, terminal, pipe):
    assert words.printed(text, colours=True) == terminal
    assert words.printed(text, colours=False) == pipe


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("30s", 30_000), ("1.5 min", 90_000), ("12h", 43_200_000), ("7d", 604_800_000), ("d", 86_400_000)],
)
def test_lengths_of_time(text, ms):
    assert typed.length_ms(text, field="--x") == ms


@pytest.mark.parametrize("text", ["", "7", "7x", "-3d", "d7", "1e3s"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(Invalid, match=r"--x .* is not a length of time, as in 30s"):
        typed.length_ms(text, field="--x")


@pytest.mark.parametrize(
    ("text", "rate", "said"),
    [("10/s", (10, 1_000), "10/s"), ("5/500ms", (5, 500), "5/500ms"), ("3 / min", (3, 60_000), "3/min")],
)
def test_rates(text, rate, said):
    assert typed.rate(text, field="--rate") == rate
    assert typed.rate_words(*rate) == said


def test_a_rate_of_0_is_none_and_nonsense_is_refused():
    assert typed.rate("0", field="--rate") == (0, 0)
    for text in ("10", "0/s", "x/s", "1/0s", "1/"):
        with pytest.raises(Invalid):
            typed.rate(text, field="--rate")


def test_a_real_terminal_gets_an_aligned_table_of_its_width():
    """On a pseudo-terminal of 50 columns, as a user sees it."""
    ours, theirs = os.openpty()
    code = f"from loam_lab.cli import out; out.print_table({ROWS!r}, ['NAME', 'STATE', 'TEXT'])"
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdout=theirs, stdin=theirs, env={**os.environ, "COLUMNS": "50"}
    )
    os.close(theirs)
    assert program.wait(30) == 0
    lines = os.read(ours, 10_000).decode().replace("\r\n", "\n").splitlines()
    os.close(ours)
    assert len(lines) == 3
    assert "\t" not in "".join(lines)
    assert max(out.places(line) for line in lines) <= 50
