"""A trained network as a player like any other. Needs torch: `pip install clustered-bandit-gym[rl]`."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import Features
from clustered_bandit_gym.policy import PULL, STOP, StepPolicy

if TYPE_CHECKING:
    from clustered_bandit_gym.policies.learned.network import CellScores

#: Name, inside a model file, of the settings it was trained with.
SETTINGS_FILE = "clustered_bai.json"


class LearnedPolicy(StepPolicy):
    """Plays what `clustered-bai train` has learned, deterministically, through `env.step`.

    It is central control: every pull is ordered by the learner and billed. It stops where the network says so, or after
    `max_pulls` pulls, the length of the episodes it was trained on, whichever comes first; it recommends the most
    probable arms (see `features`). It plays games of any size, not only that of its training; in larger ones it may
    make more pulls, in proportion to N·K. Nothing guarantees its error rate: the harness measures it.

    A Stable-Baselines3 model file holds pickles, which can run any code when SB3 loads them. This class does not: it
    reads the tensors (`torch.load(weights_only=True)`) and the settings (JSON). Still, load only files you trust.

    Args:
        path: the model file (`model.zip`) that training wrote.
    """

    name = "learned"
    guarantee = "none"

    def __init__(self, path: str) -> None:
        require_rl()
        self.path = str(path)
        file = Path(path)
        if not file.is_file():
            raise UserError(
                f"there is no model file {self.path}: train one with `clustered-bai train`"
            )
        self._content = sha256(file.read_bytes()).hexdigest()
        self._network, self._training, self._cells = _load(self.path, self._content)
        self.max_pulls = int(self._training["max_pulls"])
        self._features: Features | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The file, and what is in it: another model under the same name is another policy."""
        return {"path": self.path, "sha256": self._content[:16]}

    @property
    def label(self) -> str:
        return f"{self.name}:{self.path}"

    @property
    def training(self) -> dict[str, Any]:
        """The settings the model was trained with."""
        return dict(self._training)

    def reset(self, info: dict[str, Any], seed: int | None = None) -> None:
        self._features = features_of(
            int(info["n_agents"]),
            int(info["n_arms"]),
            info["n_clusters"],
            info["eta"],
            float(info["sigma"]),
        )

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        if self._features is None:
            raise RuntimeError(
                "LearnedPolicy.reset(info) must be called with the info of env.reset() first"
            )
        actions, arms = self.decide(self._features, obs["pulls"][None], obs["means"][None])
        if actions[0] == obs["pulls"].size:
            return STOP, arms[0]
        agent, arm = divmod(int(actions[0]), obs["pulls"].shape[1])
        return PULL, (agent, arm)

    def decide(self, features: Features, pulls: np.ndarray, means: np.ndarray) -> tuple[Ints, Ints]:
        """Flat actions (E,) and recommendations (E, N) for E plays at once, from counts and means (E, N, K)."""
        seen = features(pulls, means)
        scores = _scores(self._network, seen.features)
        # As in training: no stop before every agent has a pull.
        if self._network.probabilities:
            from clustered_bandit_gym.policies.learned.network import STOP_ABOVE

            scores[:, -1] = np.where(scores[:, -1] > STOP_ABOVE, np.inf, -np.inf)
        scores[(pulls.sum(axis=2) == 0).any(axis=1), -1] = -np.inf
        # Episodes of larger games are longer.
        limit = self.max_pulls * max(1.0, features.n_agents * features.n_arms / self._cells)
        scores[pulls.sum(axis=(1, 2)) >= limit, -1] = np.inf
        return scores.argmax(axis=1).astype(np.int64), seen.arms

    def __deepcopy__(self, memo: dict[int, Any]) -> LearnedPolicy:
        # Playing changes nothing in the network: copies share it.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)


@lru_cache(maxsize=32)
def features_of(
    n_agents: int, n_arms: int, n_clusters: int | None, eta: float | None, sigma: float
) -> Features:
    """`Features` of this shape, made once."""
    return Features(n_agents, n_arms, n_clusters, eta, sigma)


def require_rl() -> None:
    """`ImportError` that says what to install where torch or Stable-Baselines3 is missing."""
    try:
        import sb3_contrib  # noqa: F401
        import stable_baselines3  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"learned policies need {error.name or 'torch'}: pip install 'clustered-bandit-gym[rl]' (in a clone: "
            ".venv/bin/pip install -c constraints.txt -e '.[rl]')"
        ) from error


def _scores(network: CellScores, features: np.ndarray) -> np.ndarray:
    """On one thread: the network is too small for more, and the sums then do not depend on the machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            return network(torch.from_numpy(features)).numpy()
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=8)
def _load(path: str, content: str) -> tuple[CellScores, dict[str, Any], int]:
    """Network, training settings and N·K of a model file; `content` (its hash) makes sure that a changed file is
    read."""
    import torch

    from clustered_bandit_gym.policies.learned.network import ACTOR_PREFIX, CellScores

    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read(SETTINGS_FILE))
            weights = torch.load(
                io.BytesIO(archive.read("policy.pth")), map_location="cpu", weights_only=True
            )
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        ValueError,
        EOFError,
        RuntimeError,
        UnpicklingError,
    ) as error:
        raise UserError(
            f"{path} is not a model that `clustered-bai train` wrote ({error}); models of your own scripts are played "
            "by sb3:FILE"
        ) from None
    settings = about["settings"]
    prefix = ACTOR_PREFIX[settings["algo"]]
    network = CellScores(settings["width"], probabilities=settings["algo"] != "dqn")
    own = {
        key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)
    }
    try:
        network.load_state_dict(own)
    except RuntimeError:
        raise UserError(
            f"{path} was written by another version of this package, with other features: train it again"
        ) from None
    broken = [key for key, value in own.items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise UserError(
            f"{path} has weights that are not finite ({', '.join(broken)}): training diverged; train again"
        )
    return network.eval(), settings, int(about["cells"])
