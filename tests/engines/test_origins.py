"""After a session has ended, an error can say which cell to run again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from loam_lab.engines import origins, session


def test_frames_of_the_notebook_are_found_by_session(new_session):
    one, two = new_session(), new_session()
    namespace = {"df": one.range(1), "other": two.range(1), "n": 1, "_hidden": one.range(1), "spark": one}
    assert origins.frames_in(namespace) == {"df": session.session_id_of(one), "other": session.session_id_of(two)}


def test_the_cell_that_made_a_lost_frame_is_named(new_session):
    one = new_session()
    made = origins.Origins()
    namespace = {"df": one.range(1)}
    made.note_frames(namespace, "[3]")
    made.note_frames(namespace, "[4]")  # the same object: still cell 3
    made.note_ended(session.session_id_of(one), datetime(2026, 11, 29, 12, 30, tzinfo=UTC))

    assert made.explain("df.count()", "a new session") == (
        "`df` belongs to the Spark session that ended at 12:30:00 UTC; run the cell that made it again (cell [3])."
    )
    assert made.explain("df.count()", session.session_id_of(one)) is None
    assert made.explain("df2.count()", "a new session") is None

    namespace["df"] = one.range(2)
    made.note_frames(namespace, "[5]")
    assert "(cell [5])" in made.explain("df", "a new session")
    del namespace["df"]
    made.note_frames(namespace, "[6]")
    assert made.explain("df", "a new session") is None


@pytest.mark.parametrize(
    "make",
    [
        lambda spark: spark.range(1).createOrReplaceTempView("late"),
        lambda spark: spark.range(1).createTempView("late"),
        lambda spark: spark.sql("create or replace temporary view late as select 1"),
        lambda spark: spark.sql("CREATE TEMP VIEW Late AS SELECT 1"),
    ],
)
def test_temporary_views_are_remembered_however_they_are_made(new_session, make):
    spark = new_session()
    made = origins.Origins()
    origins.watch_views(spark, made, lambda: "[7]")
    make(spark)
    [origin] = made.of_session(session.session_id_of(spark))
    assert (origin.name.lower(), origin.kind, origin.label) == ("late", "view", "[7]")
    assert "the temporary view" in made.explain("select * from LATE", "a new session")


def test_a_view_that_was_not_made_is_not_remembered(new_session):
    spark = new_session()
    spark.range(1).createTempView("taken")
    made = origins.Origins()
    origins.watch_views(spark, made, lambda: "[7]")
    with pytest.raises(Exception, match=r"(?i)exists"):
        spark.range(1).createTempView("taken")
    assert made.of_session(session.session_id_of(spark)) == []
