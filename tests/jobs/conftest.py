"""A server without a socket, with a clock that stands still."""

import pytest

from loam_lab.testing import Lab


@pytest.fixture
def lab(tmp_path):
    with_store = Lab(tmp_path)
    yield with_store
    with_store.close()


@pytest.fixture
def jobs(lab):
    return lab.jobs


@pytest.fixture
def clock(lab):
    return lab.clock
