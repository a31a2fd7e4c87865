"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# The same examples in every run, as all other random tests have fixed seeds.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
