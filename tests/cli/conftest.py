"""One server for all tests of the commands; each test knows its own runs by a tag or a name."""

import pytest
from homes import Home


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("cli"))
    one.here("up")
    yield one
    one.close()
