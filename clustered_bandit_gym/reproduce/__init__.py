"""The paper's experiments: settings of its figures, played and plotted by `reproduce`."""

from clustered_bandit_gym.reproduce.run import reproduce

__all__ = ["reproduce"]
