"""Outputs stay in their places: what a front end would show at the end is what is kept."""

import json

import pytest

from loam_lab.worker.kept import Kept, drawn_over


def display(text, **more):
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}, **more}


def shown(kept):
    found = [json.loads(text) for _, text in kept.waiting()]
    return [one.get("text", one.get("data", {}).get("text/plain")) for one in found]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\nb", "a\nb"),
        ("10%\r20%\r30%", "30%"),
        ("long line\rshort", "shortline"),
        ("a\r\nb", "a\nb"),
        ("10%\r", "10%\r"),
        ("\r20%", "\r20%"),
        ("x\r\ry", "y"),
    ],
)
def test_a_line_that_was_drawn_over_is_kept_as_it_looks(text, seen):
    assert drawn_over(text) == seen


def test_a_bar_that_is_drawn_in_pieces_has_one_place():
    kept = Kept(1_000)
    for n in range(50):
        kept.stream("stderr", f"\r{n:>3}%")
    assert shown(kept) == ["\r 49%"]


def test_an_updated_display_takes_the_place_of_the_first():
    kept = Kept(10_000)
    kept.output(display("a", transient={"display_id": "x"}))
    kept.output(display("between"))
    kept.output({**display("b"), "output_type": "update_display_data", "transient": {"display_id": "x"}})
    assert shown(kept) == ["b", "between"]


def test_cleared_outputs_leave_their_places_to_what_comes_next():
    kept = Kept(10_000)
    for n in range(3):
        kept.output({"output_type": "clear_output", "wait": True})
        kept.output(display(f"frame {n}"))
        kept.stream("stdout", "line\n" if n == 0 else "")
    assert shown(kept)[0] == "frame 2"
    assert "line\n" not in shown(kept)


def test_what_was_replaced_while_it_was_sent_still_waits():
    kept = Kept(10_000)
    kept.output(display("a", transient={"display_id": "x"}))
    sending = kept.waiting()
    kept.output({**display("b"), "output_type": "update_display_data", "transient": {"display_id": "x"}})
    kept.sent(sending)
    assert shown(kept) == ["b"]


def test_a_replaced_output_gives_its_room_back():
    kept = Kept(400)
    kept.output(display("a", transient={"display_id": "x"}))
    for n in range(100):
        kept.output({**display(str(n)), "output_type": "update_display_data", "transient": {"display_id": "x"}})
    assert not kept.is_full
