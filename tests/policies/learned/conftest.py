"""A trained model that several test files play."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from learned_models import small  # needs torch, which not all tests of this folder do

    from clustered_bandit_gym.policies.learned.training import train

    path = tmp_path_factory.mktemp("learned") / "model.zip"
    train(small(), path, progress=False)
    return path
