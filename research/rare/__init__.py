"""Error probabilities too small to be seen in simulation, measured by change of measure."""

from research.rare.estimate import rare
from research.rare.kept import keep, kept
from research.rare.result import Rare

__all__ = ["Rare", "keep", "kept", "rare"]
