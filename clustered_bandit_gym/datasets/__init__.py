"""Real data as instances: flights, which ship; MovieLens-1M and Yelp from the user's own copy;
their stand-ins.

MovieLens and Yelp may not be redistributed, so they are not shipped. Give a path, or set the
environment variable CLUSTERED_BANDIT_DATA to the data or to a folder that holds it.
"""

from clustered_bandit_gym.datasets.generators import (
    Flights,
    MovieLens,
    MovieLensLike,
    Yelp,
    YelpLike,
    movielens,
    yelp,
)
from clustered_bandit_gym.datasets.sources import VARIABLE

__all__ = [
    "VARIABLE",
    "Flights",
    "MovieLens",
    "MovieLensLike",
    "Yelp",
    "YelpLike",
    "movielens",
    "yelp",
]
