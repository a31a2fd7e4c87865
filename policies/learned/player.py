"""Models of Stable-Baselines3 on the board: `learned:model.zip` and `sb3:model.zip`. Needs `rl`.

A model file holds its weights as tensors and much else as pickles, which can run any code when they
are loaded. Here only the tensors and the plain text beside them are read: enough for stacks of linear
layers, which SB3 makes unless it is told otherwise. For other networks write a `StepPolicy` around
`model.predict`, as `examples/feature_extractor.py` does.
"""

from __future__ import annotations

import io
import re
import zipfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from clustered_bandit_gym.envs.actions import empirical_best
from clustered_bandit_gym.envs.flat_env import ORDERS_PER_CELL, box_features
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import SIZE, TOP, Features
from clustered_bandit_gym.policy import PULL, STOP, StepPolicy


class SB3Policy(StepPolicy):
    """Plays a model that Stable-Baselines3 has trained on an id of this package, deterministically.

    Known inputs: the raw `pulls` and `means` of a flat id with `MultiInputPolicy`, the vector of a Box
    id with its default `max_pulls`, and `learned.features`. With the first two the game must have the
    N and K of the training, and a stop recommends each agent's empirical best. With features the model
    plays games of any size, recommends the most probable arms, and answers after 25 pulls for each arm
    of each agent at the latest. Nothing guarantees its error rate: the harness measures it.

    Args:
        path: the file that `model.save` or `clustered-bai train` wrote.
    """

    name = "sb3"
    guarantee = "none"

    def __init__(self, path: str) -> None:
        require_rl()
        self.path = str(path)
        file = Path(path)
        if not file.is_file():
            raise UserError(
                f"there is no model file {self.path}: write one with model.save(...) or "
                "`clustered-bai train`"
            )
        self._content = sha256(file.read_bytes()).hexdigest()
        self._network = Network(self.path)

    @property
    def settings(self) -> dict[str, Any]:
        """The file, and what is in it: another model under the same name is another policy."""
        return {"path": self.path, "sha256": self._content[:16]}

    @property
    def label(self) -> str:
        return f"{self.name}:{self.path}"

    def reset(self, info: dict[str, Any], seed: int | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._sigma = float(info["sigma"])
        self._features = Features(
            info["n_agents"], info["n_arms"], info["n_clusters"], info["eta"], self._sigma
        )

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        pulls, means = obs["pulls"], obs["means"]
        may_stop = not self._network.masked or bool(pulls.any(axis=1).all())
        if self._network.inputs == SIZE:
            seen = self._features(pulls[None], means[None])
            rank = self._choose(seen.features[0], TOP + 1, may_stop)
            late = pulls.sum() >= ORDERS_PER_CELL * pulls.size
            if late or rank == TOP:
                return STOP, seen.arms[0]
            action = int(seen.cells[0, rank])
        else:
            action = self._choose(self._look(pulls, means), pulls.size + 1, may_stop)
            if action == pulls.size:
                return STOP, empirical_best(pulls, means, self._rng)
        return PULL, divmod(action, pulls.shape[1])

    def _choose(self, inputs: np.ndarray, n_actions: int, may_stop: bool) -> int:
        """The best action; the last one stops."""
        scores = self._network(inputs)
        if scores.size != n_actions:
            raise UserError(
                f"{self.path} has {scores.size} actions, this game has {n_actions}: play it at the "
                "size it was trained at"
            )
        return int(scores[: n_actions if may_stop else -1].argmax())

    def _look(self, pulls: np.ndarray, means: np.ndarray) -> np.ndarray:
        """The model's input: SB3 concatenates the entries of a Dict space in its order."""
        raw = np.concatenate([pulls.ravel(), means.ravel()]).astype(np.float32)
        time = np.array([min(pulls.sum() / (ORDERS_PER_CELL * pulls.size), 1.0)])
        box = box_features(pulls[None], means[None], self._sigma, time)[0]
        for vector in (raw, box):
            if vector.size == self._network.inputs:
                return vector
        raise UserError(
            f"{self.path} takes {self._network.inputs} inputs; this game has {raw.size} raw ones "
            f"(pulls and means) or {box.size} of a Box id: play it at the size it was trained at"
        )


class LearnedPolicy(SB3Policy):
    """Plays what `clustered-bai train` has learned: an `SB3Policy` under another name."""

    name = "learned"


def require_rl() -> None:
    """`ImportError` that says what to install."""
    needed = ("torch", "stable_baselines3", "sb3_contrib")
    missing = [name for name in needed if not find_spec(name)]
    if missing:
        raise ImportError(
            f"learned players need {', '.join(missing)}: pip install 'clustered-bandit-gym[rl]'"
        )


def _check_size(file: str | IO[bytes]) -> None:
    """`ValueError` if a model file, or a file of tensors in it, unpacks to more than 512 MB."""
    with zipfile.ZipFile(file) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > 2**29:
            raise ValueError(f"it unpacks to {size / 2**20:,.0f} MB")
        for name in archive.namelist():
            if name.endswith(".pth"):
                _check_size(io.BytesIO(archive.read(name)))


class Network:
    """The stack of linear layers in a model file: input (inputs,) -> scores of actions (actions,).

    Attributes:
        inputs: their number.
        masked: the stop is forbidden until every agent has a pull.
    """

    def __init__(self, path: str) -> None:
        from stable_baselines3.common.save_util import load_from_zip_file

        try:
            _check_size(path)
            with zipfile.ZipFile(path) as archive:
                about = archive.read("data").decode()
            parameters = load_from_zip_file(path, device="cpu", load_data=False)[1]
            weights = parameters["policy"]
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise UserError(f"{path} is not a model of Stable-Baselines3 ({error})") from None
        # Where SB3 keeps the layers of the actor, or of the action values, and its activation.
        stacks = (("mlp_extractor.policy_net.", "Tanh"), ("q_net.q_net.", "ReLU"))
        actor = "action_net.weight" in weights
        prefix, activation = stacks[0] if actor else stacks[1]
        names = [key for key in weights if key.startswith(prefix) and key.endswith(".weight")]
        if actor:
            names.append("action_net.weight")
        extractors = ("features_extractor.", "pi_features_extractor.")
        given = re.search(r"activation_fn[^<]*<class '[\w.]*\.(\w+)'>", about)
        if given is not None:
            activation = given[1]
        extracts = any(key.startswith(extractors) for key in weights)
        if not names or extracts or activation not in ("Tanh", "ReLU"):
            raise UserError(
                f"{path} is not a stack of linear layers with Tanh or ReLU between them; write a "
                "StepPolicy around model.predict, as examples/feature_extractor.py does"
            )
        self._tanh = activation == "Tanh"
        self._layers = []
        for name in names:
            bias = weights[name.removesuffix("weight") + "bias"]
            self._layers.append((weights[name].numpy(), bias.numpy()))
        self.inputs = int(self._layers[0][0].shape[1])
        self.masked = "maskable" in about

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        x = inputs
        for weight, bias in self._layers[:-1]:
            x = weight @ x + bias
            x = np.tanh(x) if self._tanh else np.maximum(x, 0)
        weight, bias = self._layers[-1]
        return weight @ x + bias
