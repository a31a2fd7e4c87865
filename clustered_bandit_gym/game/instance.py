"""`Instance`: the truth of a play."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property, partial
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Bools, FilePath, Floats, Ints, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import indices, read_only
from clustered_bandit_gym.game.rewards import Gaussian, RewardModel
from clustered_bandit_gym.game.tables import Fit, read_bandits, read_logs


class Instance:
    """N agents in M clusters, each cluster a K-armed bandit. Immutable: every array is read-only.

    Args:
        means: (M, K) mean reward of each arm in each cluster. None where the reward model brings
            its own.
        clusters: (N,) the cluster of each agent. A cluster may have no agent.
        rewards: law of the rewards around the means; unit Gaussian by default.
        arm_names, cluster_names: K and M labels, for display.
        allow_ties: accept bandits with several best arms; each of them then counts as right.
        allow_overlap: accept an instance that violates Assumption 1 (η ≤ 0, e.g. two clusters with
            one best arm). No scheme has a guarantee on it.
    """

    #: How well the logs that it was made from predict themselves; see `from_logs`.
    fit: Fit | None = None

    def __init__(
        self,
        means: ArrayLike | None,
        clusters: ArrayLike,
        rewards: RewardModel | None = None,
        *,
        arm_names: Sequence[str] | None = None,
        cluster_names: Sequence[str] | None = None,
        allow_ties: bool = False,
        allow_overlap: bool = False,
    ) -> None:
        self.rewards: RewardModel = Gaussian() if rewards is None else rewards
        if not isinstance(self.rewards, RewardModel):
            raise TypeError(
                f"rewards must be a RewardModel, e.g. Gaussian() or Bernoulli(), got {rewards!r}"
            )
        given = None if means is None else mean_table(means)
        self.means: Floats = read_only(self.rewards.check_means(given))
        self.n_clusters, self.n_arms = self.means.shape
        self.clusters: Ints = read_only(indices(clusters, self.n_clusters, "cluster"))
        if self.clusters.ndim != 1 or self.clusters.size == 0:
            raise UserError(f"clusters must be a vector (agents,), got shape {self.clusters.shape}")
        self.n_agents: int = self.clusters.size
        self.arm_names = _names(arm_names, self.n_arms, "arm_names")
        self.cluster_names = _names(cluster_names, self.n_clusters, "cluster_names")
        self.allow_ties = bool(allow_ties)
        self.allow_overlap = bool(allow_overlap)
        self._check_best_arms()
        self._complete = True

    def _check_best_arms(self) -> None:
        """Refuse ties and shared best arms unless they are allowed."""
        clusters = self.cluster_names or range(self.n_clusters)
        arms = np.array(self.arm_names or range(self.n_arms))
        tied = np.flatnonzero(self.is_best.sum(axis=1) > 1)
        if tied.size and not self.allow_ties:
            best = " and ".join(map(str, arms[self.is_best[tied[0]]]))
            raise UserError(
                f"cluster {clusters[tied[0]]} has several best arms, {best}; make the best arm "
                "unique, or pass allow_ties=True (command line: --set allow_ties=true)"
            )
        if self.eta <= 0 and not self.allow_overlap:
            a, b = np.argwhere(self._separation[0] <= 0)[0]
            shared = arms[self.is_best[a] & self.is_best[b]][0]
            raise UserError(
                f"Assumption 1 fails: clusters {clusters[a]} and {clusters[b]} share the best arm "
                f"{shared}; merge them, or pass allow_overlap=True (--set allow_overlap=true)"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if "_complete" in self.__dict__:
            raise AttributeError(f"an Instance does not change; build a new one to set {name}")
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        # Made anew in a worker process: pickling forgets that arrays are read-only.
        make = partial(Instance, self.means, self.clusters, self.rewards, **self._notes)
        return make, (), {"fit": self.fit}

    @cached_property
    def best_arms(self) -> Ints:
        """(M,) best arm of each cluster; with ties, the one of lowest index."""
        return read_only(self.means.argmax(axis=1).astype(int))

    @cached_property
    def is_best(self) -> Bools:
        """(M, K) whether the arm's mean equals the largest of its cluster."""
        return read_only(self.good_arms())

    def good_arms(self, epsilon: float = 0.0) -> Bools:
        """(M, K) whether the arm's mean is within ε of the largest of its cluster."""
        # A small tolerance: 0.8 − 0.7 exceeds 0.1 in floating point.
        behind = self.means.max(axis=1, keepdims=True) - self.means
        return np.asarray(behind <= epsilon * (1 + 1e-9))

    @cached_property
    def agent_best_arms(self) -> Ints:
        """(N,) best arm of each agent."""
        return read_only(self.best_arms[self.clusters])

    @cached_property
    def gaps(self) -> Floats:
        """(M, K) distance to the best mean; at the best arm itself, the distance to the second best
        (K = 1: inf)."""
        gaps = self.means.max(axis=1, keepdims=True) - self.means
        best = np.arange(self.n_clusters), self.best_arms
        gaps[best] = np.inf
        gaps[best] = gaps.min(axis=1)
        return read_only(gaps)

    @cached_property
    def _separation(self) -> tuple[Floats, Floats]:
        """Two tables (M, M) with infinite diagonals.

        Entry (a, b): by how much a's best arm (any of them) is worse than b's, in bandit b; and
        |μ_a,k − μ_b,k| for a's best arm k (any of them).
        """
        top = self.means.max(axis=1)
        at_best = [self.means[:, arms] for arms in self.is_best]
        worse = [top - means.max(axis=1) for means in at_best]
        apart = [np.abs(own - means).min(axis=1) for own, means in zip(top, at_best, strict=True)]
        diagonal = np.diag(np.full(top.size, np.inf))
        return worse + diagonal, apart + diagonal

    @property
    def eta(self) -> float:
        """The largest η with which Assumption 1 holds; inf for a single cluster."""
        return float(self._separation[0].min())

    @property
    def eta1(self) -> float:
        """The largest η1 with which Assumption 2 holds; inf for a single cluster."""
        return float(self._separation[1].min())

    def with_clusters(self, clusters: ArrayLike) -> Instance:
        """The same bandits with agents in `clusters` (N,)."""
        return Instance(self.means, clusters, self.rewards, **self._notes)

    @property
    def _notes(self) -> Values:
        names = ("arm_names", "cluster_names", "allow_ties", "allow_overlap")
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        mine = self._content()
        theirs = other._content()
        same = (np.array_equal(mine[key], theirs[key]) for key in mine)
        return mine.keys() == theirs.keys() and all(same)

    def _content(self) -> Values:
        """The arrays that `save` writes."""
        model = {f"rewards.{key}": np.asarray(v) for key, v in self.rewards.to_dict().items()}
        text = np.array(json.dumps(self._notes))
        return {"means": self.means, "clusters": self.clusters, "notes": text, **model}

    def __repr__(self) -> str:
        return (
            f"Instance(n_agents={self.n_agents}, n_clusters={self.n_clusters}, n_arms={self.n_arms}, "
            f"eta={self.eta:.4g}, eta1={self.eta1:.4g}, rewards={type(self.rewards).__name__})"
        )

    def save(self, path: FilePath) -> None:
        """Write to a NumPy archive (.npz) without pickled objects; `Instance.load` reads it back."""
        with open(path, "wb") as file:  # NumPy would add .npz to a path without it
            np.savez_compressed(file, **self._content())

    @classmethod
    def from_csv(cls, path: FilePath, **settings: Any) -> Instance:
        """The instance of a CSV file: a table of means, or raw rows of cluster, arm and reward.

        Args:
            path: the file; `read_bandits` describes the format.
            settings: more of the class: `clusters` (N,), as row numbers of the table (one agent
                per cluster by default), `allow_ties`, `allow_overlap`, or `rewards` instead of
                what raw rewards suggest.
        """
        bandits = read_bandits(path)
        return cls(**{"clusters": range(len(bandits["means"])), **bandits, **settings})

    @classmethod
    def from_logs(cls, logs: Any, clusters: int | None = None) -> Instance:
        """The instance of logged rewards without clusters. Agents may share best arms (no η then).

        `instance.fit` says how well one half of the rows predicts the other: an instance made from
        few rewards is not the system that they came from. It is None where there are too few rows.

        Args:
            logs: path of a CSV file, or a pandas frame, with the columns agent (or user), arm,
                reward.
            clusters: M, to group agents with similar averages (k-means) and pool their rewards; by
                default each agent's own empirical law is the truth.
        """
        bandits, labels, fit = read_logs(logs, clusters)
        made = cls(**bandits, clusters=labels, allow_ties=True, allow_overlap=True)
        vars(made)["fit"] = fit
        return made

    @classmethod
    def load(cls, path: FilePath | IO[bytes]) -> Instance:
        """Read what `save` wrote: nothing pickled, nothing that would unpack to over 512 MB."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                check_unpacked(archive.zip)
                data: Values = dict(archive)
            notes = json.loads(str(data["notes"]))
            model = {key[8:]: data[key] for key in data if key.startswith("rewards.")}
            law = RewardModel.from_dict(model)
            return cls(data["means"], data["clusters"], law, **notes)
        except OSError:
            raise
        except Exception as error:  # damaged archives raise many kinds
            raise UserError(f"{path} is not a saved Instance ({error})") from error


def check_unpacked(archive: ZipFile) -> None:
    """`ValueError` if the files unpack to more than 512 MB."""
    size = sum(entry.file_size for entry in archive.infolist())
    if size > 2**29:
        raise ValueError(f"it unpacks to {size / 2**20:,.0f} MB")


def mean_table(means: ArrayLike) -> Floats:
    """`means` as an array (M, K), checked."""
    try:
        matrix = np.array(means, dtype=float)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        raise UserError(f"means must be finite numbers, a table (clusters, arms); got {means!r}")
    return matrix


def _names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(names) != count:
        raise UserError(f"{what} must have {count} entries, got {len(names)}")
    return tuple(map(str, names))
