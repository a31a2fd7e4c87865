"""Models of Stable-Baselines3 on the board: `learned:model.zip` and `sb3:model.zip`. Needs `rl`.

A model file holds its weights as tensors and much else as pickles, which can run any code when they
are loaded. Here only the tensors and the plain text beside them are read: enough for stacks of linear
layers, which SB3 makes unless it is told otherwise. For other networks write a `StepPolicy` around
`model.predict`, as `examples/feature_extractor.py` does.
"""

from __future__ import annotations

import io
import json
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Array, Values
from clustered_bandit_gym.envs.actions import empirical_best
from clustered_bandit_gym.envs.flat_env import ORDERS_PER_CELL, box_features
from clustered_bandit_gym.errors import UserError, needs_extra
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.instance import check_unpacked
from clustered_bandit_gym.policies.learned.features import SIZE, TOP, Features
from clustered_bandit_gym.policy import PULL, STOP, StepPolicy


class SB3Policy(StepPolicy):
    """Plays a model that Stable-Baselines3 has trained on an id of this package, deterministically.

    Known inputs: the vector of a Box id, and `learned.features`. With the first the game must have the N
    and K of the training (only their product can be checked), and a stop recommends each agent's
    empirical best. With features the model plays games of any size and recommends the most probable
    arms. Nothing guarantees its error rate: the harness measures it.

    Args:
        path: the file that `model.save` or `clustered-bai train` wrote.
        max_pulls: that of the training, at which the player answers by itself and of which a Box
            observation holds the used share; by default that of the flat ids.
    """

    name = "sb3"
    guarantee = "none"

    def __init__(self, path: str, max_pulls: int | None = None) -> None:
        self.path = str(path)
        self.max_pulls = None if max_pulls is None else whole(max_pulls, "max_pulls")
        file = Path(path)
        if not file.is_file():  # SB3 adds the suffix
            file = Path(f"{path}.zip")
        if not file.is_file():
            raise UserError(
                f"there is no model file {self.path}: write one with model.save(...) or "
                "`clustered-bai train`"
            )
        # A setting: another model under the same name is another policy.
        self.sha256 = sha256(file.read_bytes()).hexdigest()[:16]
        self._network = Network(str(file))

    @property
    def label(self) -> str:
        limit = f",max_pulls={self.max_pulls}" * (self.max_pulls is not None)
        return f"{self.name}:{self.path}{limit}"

    def reset(self, info: Values, seed: int | None = None) -> None:
        if "action_mask" in info:
            raise UserError(
                "sb3: and learned: play games, not their flat ids: leave out -Box, -Discrete"
            )
        self._rng = np.random.default_rng(seed)
        self._sigma = info["sigma"]
        self._features = Features(info["n_clusters"], info["eta"], self._sigma)

    def act(self, obs: dict[str, Array], info: Values) -> Any:
        pulls = obs["pulls"]
        means = obs["means"]
        used = pulls.sum() / (self.max_pulls or ORDERS_PER_CELL * pulls.size)
        if self._network.inputs == SIZE:
            seen = self._features(pulls[None], means[None])
            rank = self._choose(seen.features[0], TOP + 1, pulls)
            if used >= 1 or rank == TOP:
                return STOP, seen.arms[0]
            action = int(seen.cells[0, rank])
        else:
            box = box_features(pulls, means, self._sigma, min(used, 1.0))
            action = self._choose(box, pulls.size + 1, pulls)
            if used >= 1 or action == pulls.size:
                return STOP, empirical_best(pulls, means, self._rng)
        return PULL, divmod(action, pulls.shape[1])

    def _choose(self, inputs: Array, n_actions: int, pulls: Array) -> int:
        """The best action; the last one stops."""
        network = self._network
        if (inputs.size, n_actions) != (network.inputs, network.actions):
            raise UserError(
                f"{self.path} has {network.inputs} inputs and {network.actions} actions, here "
                f"{inputs.size} and {n_actions} are needed: only models of the Box id at the size that "
                "they were trained at, or of features, with single pulls and SB3's default layers, can "
                "play"
            )
        scores = network(inputs)
        if network.masked and not pulls.any(axis=1).all():
            scores = scores[:-1]
        return int(scores.argmax())


class LearnedPolicy(SB3Policy):
    """Plays what `clustered-bai train` has learned: an `SB3Policy` under another name."""

    name = "learned"


class Network:
    """The stack of linear layers in a model file: input (inputs,) -> scores of actions (actions,).

    Attributes:
        inputs, actions: their numbers.
        masked: the stop is forbidden until every agent has a pull.
    """

    def __init__(self, path: str) -> None:
        with needs_extra("rl"):
            import torch
        try:
            with zipfile.ZipFile(path) as archive:
                check_unpacked(archive)
                about = archive.read("data").decode()
                tensors = archive.read("policy.pth")
            check_unpacked(zipfile.ZipFile(io.BytesIO(tensors)))
            given = json.loads(about)["policy_kwargs"]
            weights = torch.load(io.BytesIO(tensors), map_location="cpu", weights_only=True)
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise UserError(f"{path} is not a model of Stable-Baselines3 ({error})") from None
        # Where SB3 keeps the layers of the actor, or of the action values.
        stacks = ("mlp_extractor.policy_net.", "action_net.", "q_net.q_net.")
        names = [key for key in weights if key.startswith(stacks) and key.endswith(".weight")]
        if not names or {"activation_fn", "features_extractor_class"} & set(given):
            raise UserError(
                f"{path} does not have the layers that SB3 makes by default; write a StepPolicy "
                "around model.predict, as examples/feature_extractor.py does"
            )
        self._layers = [
            (weights[name].numpy(), weights[name.removesuffix("weight") + "bias"].numpy())
            for name in names
        ]
        self._tanh = "action_net.weight" in weights  # SB3's default; ReLU for action values
        self.inputs = self._layers[0][0].shape[1]
        self.actions = self._layers[-1][0].shape[0]
        self.masked = "maskable" in about

    def __call__(self, inputs: Array) -> Array:
        x = inputs
        for weight, bias in self._layers:
            scores = weight @ x + bias
            x = np.tanh(scores) if self._tanh else np.maximum(scores, 0)
        return scores
