"""Real kernels on a real server: one home for the tests that leave it whole, more for those that kill something."""

from __future__ import annotations

import pytest
from kernels import Home, Kernel


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """One server, one Sail, one catalog for all tests that leave them alone."""
    one = Home(tmp_path_factory.mktemp("lab") / "home")
    yield one
    one.down()


@pytest.fixture(scope="session")
def shared_kernel(home):
    one = Kernel(home)
    yield one
    one.close()


@pytest.fixture
def kernel(shared_kernel):
    """The shared kernel, free of what the last test did to its session."""
    return shared_kernel


@pytest.fixture
def new_home(tmp_path):
    """Make homes that end with the test."""
    made = []

    def make(**settings):
        made.append(Home(tmp_path / f"home {len(made)}", **settings))
        return made[-1]

    yield make
    for one in made:
        one.down()


@pytest.fixture
def new_kernel():
    """Make kernels that end with the test."""
    made = []

    def make(home, **options):
        made.append(Kernel(home, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
