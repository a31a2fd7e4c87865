"""A browser for tests of pages; tests that need it are skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from machine import lacks

FLAGS = (
    "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync disable-dev-shm-usage"
)


@contextmanager
def chromium(width: int, height: int) -> Iterator[Any]:
    """A headless Chromium with a window of this size that keeps its console log."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip(
            "needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)"
        )
    if reason := lacks("Chromium"):
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in f"{FLAGS} window-size={width},{height}".split():
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield session
    finally:
        session.quit()
