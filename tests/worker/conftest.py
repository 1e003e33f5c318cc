"""One home for all tests of the worker: it, Sail and the children are real, and some of them are killed."""

import pytest
from homes import Home


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("worker"))
    one.here("up")
    yield one
    one.close()
