"""An engine that dies is told in words, not by the class of a library."""

from loam_lab.engines import faults


class Code:
    name = "UNAVAILABLE"


class RpcError(Exception):
    """As grpc makes them: a class for people who debug grpc, and the words in methods."""

    def code(self):
        return Code

    def details(self):
        return "Socket closed"

    def __str__(self):
        return (
            "<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n Socket closed>"
        )


def test_a_server_that_went_away_is_named_first():
    found = faults.classify(RpcError(), interrupted=False)
    assert (found.kind, found.transient) == (faults.LOST, True)
    assert found.message == "the Spark server went away while it was asked (Socket closed); run it again"
