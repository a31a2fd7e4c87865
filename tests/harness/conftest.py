"""Fixtures of the harness's tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def keyboard() -> Iterator[None]:
    """Python's own handler of Ctrl-C, which is missing where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
