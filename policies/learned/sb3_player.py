"""Models from your own Stable-Baselines3 scripts as players on the board: `sb3:model.zip`. Needs the `rl` extra.

An SB3 model file holds its weights as tensors and much else as pickles, which can run any code when they are loaded.
By default only the tensors and the plain text beside them are read: enough for policies that are stacks of linear
layers, which SB3 makes unless it is told otherwise. Everything else needs `full=true`, which unpickles.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.envs.actions import empirical_best
from clustered_bandit_gym.envs.box import box_features
from clustered_bandit_gym.envs.flat_env import ORDERS_PER_CELL
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.player import require_rl
from clustered_bandit_gym.policy import PULL, STOP, StepPolicy

#: Where the layers of the actor, or of the action values, are in `policy.pth`, and the activation SB3 uses by default.
_STACKS = (
    (r"mlp_extractor\.policy_net\.(\d+)\.weight", "action_net.weight", "Tanh"),
    (r"q_net\.q_net\.(\d+)\.weight", None, "ReLU"),
    (r"quantile_net\.quantile_net\.(\d+)\.weight", None, "ReLU"),
)
_ACTIVATIONS = ("Tanh", "ReLU", "ELU", "LeakyReLU", "SiLU", "GELU")

#: Observations (E = 1, inputs) -> scores of the flat actions (N·K + 1,).
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]


class SB3Policy(StepPolicy):
    """Plays a Stable-Baselines3 or sb3-contrib model that was trained on a flat id of this package, deterministically.

    Known inputs: the raw `pulls` and `means` of a flat id with `MultiInputPolicy`, and the vector of a Box id with its
    default `max_pulls`. The game must have the N and K of the training. A stop recommends each agent's empirical best;
    models of maskable algorithms do not stop before every agent has a pull.

    Args:
        path: the file that `model.save` wrote.
        full: unpickle the whole file, as SB3 does: for custom networks and feature extractors. This can run any code
            that is in the file: only for files you wrote yourself.
    """

    name = "sb3"
    guarantee = "none"

    def __init__(self, path: str, full: bool = False) -> None:
        require_rl()
        self.path, self.full = str(path), bool(full)
        file = Path(path)
        if not file.is_file():
            raise UserError(f"there is no model file {self.path}: write one with model.save(...)")
        self._content = sha256(file.read_bytes()).hexdigest()
        self._scores, self._inputs, self._masked = (
            _unpickled(self.path) if self.full else _tensors(self.path)
        )
        self._rng = np.random.default_rng(0)

    @property
    def settings(self) -> dict[str, Any]:
        return {"path": self.path, "full": self.full, "sha256": self._content[:16]}

    @property
    def label(self) -> str:
        return f"{self.name}:{self.path}"

    def reset(self, info: dict[str, Any], seed: int | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._sigma = float(info["sigma"])

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        pulls, means = obs["pulls"], obs["means"]
        scores = self._scores(self._look(pulls, means), pulls)
        if scores.size != pulls.size + 1:
            raise UserError(
                f"{self.path} has {scores.size} actions; a game with {pulls.shape[0]} agents and {pulls.shape[1]} arms "
                f"has {pulls.size + 1}: play it at the size it was trained at"
            )
        if self._masked and (pulls.sum(axis=1) == 0).any():
            scores[-1] = -np.inf
        action = int(scores.argmax())
        if action == pulls.size:
            return STOP, empirical_best(pulls, means, lambda: self._rng)
        return PULL, divmod(action, pulls.shape[1])

    def _look(self, pulls: np.ndarray, means: np.ndarray) -> np.ndarray:
        """The model's input: SB3 concatenates the entries of a Dict space in its order."""
        raw = np.concatenate([pulls.ravel(), means.ravel()]).astype(np.float32)
        time = np.array([min(pulls.sum() / (ORDERS_PER_CELL * pulls.size), 1.0)])
        featured = box_features(pulls[None], means[None], self._sigma, time)[0]
        for vector in (raw, featured):
            if vector.size == self._inputs:
                return vector
        raise UserError(
            f"{self.path} takes {self._inputs} inputs; this game has {raw.size} raw ones (pulls and means) or "
            f"{featured.size} of a Box id: play it at the size it was trained at"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> SB3Policy:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.full)


def _tensors(path: str) -> tuple[Scores, int, bool]:
    """The stack of linear layers in a model file, its number of inputs, and whether masks belong to it."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            about = archive.read("data").decode()
            json.loads(about)
            weights = torch.load(
                io.BytesIO(archive.read("policy.pth")), map_location="cpu", weights_only=True
            )
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise UserError(f"{path} is not a model that Stable-Baselines3 wrote ({error})") from None
    advice = "with a file that you wrote yourself, sb3:FILE,full=true loads it as SB3 does (which can run code in it)"
    for pattern, last, activation in _STACKS:
        numbers = sorted(
            int(found.group(1)) for key in weights if (found := re.fullmatch(pattern, key))
        )
        if not numbers and (last is None or last not in weights):
            continue
        names = [re.sub(r"\\\.", ".", pattern).replace(r"(\d+)", str(n)) for n in numbers]
        names += [last] if last is not None else []
        if any(
            key.startswith(("features_extractor.", "pi_features_extractor.")) for key in weights
        ):
            break
        layers = [
            (weights[one].numpy(), weights[one.removesuffix("weight") + "bias"].numpy())
            for one in names
        ]
        chosen = re.search(r"""activation_fn[\\"']*: [\\"']*<class '([\w.]+)'>""", about)
        activation = chosen.group(1).rpartition(".")[2] if chosen else activation
        if activation not in _ACTIVATIONS:
            raise UserError(f"{path}: activation {activation} is not known here; {advice}")
        function = getattr(torch.nn, activation)()

        def scores(
            inputs: np.ndarray, pulls: np.ndarray, layers: Any = layers, function: Any = function
        ) -> np.ndarray:
            with torch.no_grad():
                x = torch.from_numpy(inputs)
                for number, (weight, bias) in enumerate(layers):
                    x = torch.nn.functional.linear(
                        x, torch.from_numpy(weight), torch.from_numpy(bias)
                    )
                    x = function(x) if number < len(layers) - 1 else x
            out = x.numpy()
            # Quantile networks (QR-DQN) give several numbers for each action; their average is its value.
            return (
                out if out.size == pulls.size + 1 else out.reshape(-1, pulls.size + 1).mean(axis=0)
            )

        return scores, int(layers[0][0].shape[1]), "maskable" in about
    raise UserError(f"{path} holds a network that is not a stack of linear layers; {advice}")


def _unpickled(path: str) -> tuple[Scores, int, bool]:
    """The policy of a model file, loaded as SB3 does."""
    import torch
    from stable_baselines3.common.save_util import load_from_zip_file
    from stable_baselines3.common.utils import FloatSchedule

    warnings.warn(
        f"loading {path} unpickles it, which can run any code that is in the file", stacklevel=4
    )
    data, parameters, _ = load_from_zip_file(path, device="cpu")
    if data is None:
        raise UserError(f"{path} is not a model that Stable-Baselines3 wrote")
    policy = data["policy_class"](
        data["observation_space"],
        data["action_space"],
        FloatSchedule(0.0),
        **data.get("policy_kwargs", {}),
    )
    policy.load_state_dict(parameters["policy"])
    policy.set_training_mode(False)
    space = data["observation_space"]
    is_dict = hasattr(space, "spaces")
    size = (
        sum(int(np.prod(one.shape)) for one in space.spaces.values())
        if is_dict
        else int(np.prod(space.shape))
    )

    def scores(inputs: np.ndarray, pulls: np.ndarray) -> np.ndarray:
        obs: Any = inputs.reshape(space.shape) if not is_dict else {}
        if is_dict:
            half = inputs.size // 2
            obs = {
                "pulls": inputs[:half].reshape(pulls.shape),
                "means": inputs[half:].reshape(pulls.shape),
            }
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(obs)
            if hasattr(policy, "q_net"):
                return policy.q_net(tensor)[0].numpy()
            return policy.get_distribution(tensor).distribution.logits[0].numpy()

    return scores, size, "maskable" in type(policy).__module__
