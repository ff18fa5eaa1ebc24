"""The nursery that all crash tests share."""

from __future__ import annotations

import pytest

from tests.crash.nursery import Nursery


@pytest.fixture(scope="session")
def nursery():
    """A process that forks children quickly; it and they are gone at the end."""
    nursery = Nursery()
    yield nursery
    nursery.close()
