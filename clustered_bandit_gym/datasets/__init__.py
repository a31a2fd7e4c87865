"""Real data as instances: MovieLens-1M and the Yelp Open Dataset, read from the user's own copy, and their stand-ins.

Neither data set may be redistributed, so none is shipped. Give a path, or set the environment variable
CLUSTERED_BANDIT_DATA to the data or to a folder that holds it.
"""

from clustered_bandit_gym.datasets.generators import MovieLens, MovieLensLike, Yelp, YelpLike, movielens, yelp
from clustered_bandit_gym.datasets.sources import VARIABLE

__all__ = ["VARIABLE", "MovieLens", "MovieLensLike", "Yelp", "YelpLike", "movielens", "yelp"]
