"""Real data as instances: MovieLens-1M and the Yelp Open Dataset, read from the user's own copy, and their stand-ins.

Neither data set may be redistributed, so none is shipped. Give a path, or set the environment variable
CLUSTERED_BANDIT_DATA to the data or to a folder that holds it.
"""

from clustered_bandit_gym.datasets.generators import MovieLens, MovieLensLike, Yelp, YelpLike
from clustered_bandit_gym.datasets.movielens_1m import movielens
from clustered_bandit_gym.datasets.sources import VARIABLE
from clustered_bandit_gym.datasets.yelp_open import yelp

__all__ = ["VARIABLE", "MovieLens", "MovieLensLike", "Yelp", "YelpLike", "movielens", "yelp"]
