"""A module in a folder without __init__.py: strict mode must copy it all the same."""

from typing import Any

FOUND: list[Any] = []
