"""What the tests of Spark share; the session itself is the process's, in tests/conftest.py."""

from __future__ import annotations

from tests.support.spark_session import REPOSITORY, use_this_python

__all__ = ["REPOSITORY", "use_this_python"]
