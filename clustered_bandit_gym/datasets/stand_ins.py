"""Stand-ins for the two data sets that may not be redistributed: shipped bandits with what is known
of the real ones.

They are made up, by ``docs/make_stand_ins.py``. What is printed about the real data holds exactly,
everything else was drawn. A claim about the real data cannot be tested on a stand-in.
"""

from __future__ import annotations

import io
from functools import cache
from importlib.resources import files

from clustered_bandit_gym.game.instance import Instance


@cache
def load(name: str) -> Instance:
    """The bandits of "movielens_like" or "yelp_like", one agent in each."""
    data = files("clustered_bandit_gym.datasets").joinpath(f"{name}.npz").read_bytes()
    return Instance.load(io.BytesIO(data))
