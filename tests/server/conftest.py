"""Each test has a home of its own; nothing of it is left."""

import pytest
from homes import Home


@pytest.fixture
def home(tmp_path):
    one = Home(tmp_path)
    yield one
    one.close()
