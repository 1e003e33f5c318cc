"""An engine that dies is told in words, not by the class of a library."""

import pytest

from loam_lab.engines import faults, sail, session


def test_a_sail_that_dies_under_a_query_is_named_in_words(new_sail):
    """A Sail of its own is killed; pyspark quotes gRPC's own text."""
    one = new_sail()
    spark = session.open_session(one.remote, "9ea42a8b-62c2-4bd0-8b1c-0b6f3a3d7c11", make_default=False)
    spark.sql("select 1").collect()
    sail.stop(one.pid, one.started, grace_seconds=0)

    with pytest.raises(Exception, match="UNAVAILABLE|refused|RETRIES") as caught:
        spark.sql("select 2").collect()

    found = faults.classify(caught.value, interrupted=False)
    assert (found.kind, found.transient) == (faults.LOST, True)
    assert "RPC that terminated" not in found.message.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            (
                "<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
                '\tdetails = "Socket closed"\n\tdebug_error_string = "x"\n>'
            ),
            "the Spark server went away while it was asked (Socket closed); run it again",
        ),
        (
            (
                "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.INTERNAL\n"
                '\tdetails = "no such "thing""\n\tdebug_error_string = "x"\n>'
            ),
            'INTERNAL: no such "thing"',
        ),
        ("division by zero", "division by zero"),
    ],
)
def test_the_words_of_grpc_come_first(text, said):
    assert faults.words(RuntimeError(text)) == said
