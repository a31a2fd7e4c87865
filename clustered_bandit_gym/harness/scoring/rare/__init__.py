"""Error probabilities too small to be seen in simulation, measured by change of measure."""

from clustered_bandit_gym.harness.scoring.rare.estimate import rare
from clustered_bandit_gym.harness.scoring.rare.kept import keep, kept
from clustered_bandit_gym.harness.scoring.rare.result import Rare

__all__ = ["Rare", "keep", "kept", "rare"]
