"""Models of Stable-Baselines3 as players on the board: `learned:model.zip` and `sb3:model.zip`. Needs the `rl` extra.

A model file holds its weights as tensors and much else as pickles, which can run any code when they are loaded. By
default only the tensors and the plain text beside them are read: enough for policies that are stacks of linear layers,
which SB3 makes unless it is told otherwise. Everything else needs `full=true`, which unpickles.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym.envs.actions import empirical_best
from clustered_bandit_gym.envs.box import box_features
from clustered_bandit_gym.envs.flat_env import ORDERS_PER_CELL
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.features import SIZE, TOP, Features
from clustered_bandit_gym.policy import PULL, STOP, StepPolicy

#: Where the layers of the actor, or of the action values, are in `policy.pth`, and the activation SB3 uses by default.
_STACKS = (
    (r"mlp_extractor\.policy_net\.(\d+)\.weight", "action_net.weight", "Tanh"),
    (r"q_net\.q_net\.(\d+)\.weight", None, "ReLU"),
    (r"quantile_net\.quantile_net\.(\d+)\.weight", None, "ReLU"),
)
_ACTIVATIONS = ("Tanh", "ReLU", "ELU", "LeakyReLU", "SiLU", "GELU")
_ADVICE = "with a file that you wrote yourself, sb3:FILE,full=true loads it as SB3 does (which can run code in it)"


class Network(NamedTuple):
    """A network from a model file.

    Attributes:
        scores: input (inputs,) and number of actions -> scores (actions,).
        inputs: their number.
        masked: the stop is forbidden until every agent has a pull.
    """

    scores: Callable[[np.ndarray, int], np.ndarray]
    inputs: int
    masked: bool


class SB3Policy(StepPolicy):
    """Plays a Stable-Baselines3 or sb3-contrib model that was trained on an id of this package, deterministically.

    Known inputs: the raw `pulls` and `means` of a flat id with `MultiInputPolicy`, the vector of a Box id with its
    default `max_pulls`, and `learned.features`. With the first two the game must have the N and K of the training, and
    a stop recommends each agent's empirical best. With features the model plays games of any size, recommends the most
    probable arms, and answers after 25 pulls for each arm of each agent at the latest. Nothing guarantees its error
    rate: the harness measures it.

    Args:
        path: the file that `model.save` or `clustered-bai train` wrote.
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
            raise UserError(
                f"there is no model file {self.path}: write one with model.save(...) or `clustered-bai train`"
            )
        self._content = sha256(file.read_bytes()).hexdigest()
        self._network = _unpickled(self.path) if self.full else _tensors(self.path)
        self._rng = np.random.default_rng(0)
        self._features: Features | None = None
        self._sigma = 1.0

    @property
    def settings(self) -> dict[str, Any]:
        """The file, and what is in it: another model under the same name is another policy."""
        return {"path": self.path, "full": self.full, "sha256": self._content[:16]}

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
        if self._features is None:
            raise RuntimeError("reset(info) must be called with the info of env.reset() first")
        network = self._network
        may_stop = not (network.masked and (pulls.sum(axis=1) == 0).any())
        if network.inputs == SIZE:
            seen = self._features(pulls[None], means[None])
            rank = self._choose(seen.features[0], TOP + 1, may_stop)
            late = pulls.sum() >= ORDERS_PER_CELL * pulls.size
            if late or rank == TOP:
                return STOP, seen.arms[0]
            action = int(seen.cells[0, rank])
        else:
            action = self._choose(self._look(pulls, means), pulls.size + 1, may_stop)
            if action == pulls.size:
                return STOP, empirical_best(pulls, means, lambda: self._rng)
        return PULL, divmod(action, pulls.shape[1])

    def _choose(self, inputs: np.ndarray, n_actions: int, may_stop: bool) -> int:
        """The best action; the last one stops."""
        scores = self._network.scores(inputs, n_actions)
        if scores.size != n_actions:
            raise UserError(
                f"{self.path} has {scores.size} actions, this game has {n_actions}: play it at the size it was "
                "trained at"
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
            f"{self.path} takes {self._network.inputs} inputs; this game has {raw.size} raw ones (pulls and means) or "
            f"{box.size} of a Box id: play it at the size it was trained at"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> SB3Policy:
        # Playing changes nothing in the network: copies share it.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.full)


class LearnedPolicy(SB3Policy):
    """Plays what `clustered-bai train` has learned: an `SB3Policy` under another name."""

    name = "learned"


def require_rl() -> None:
    """`ImportError` that says what to install."""
    missing = [
        name for name in ("torch", "stable_baselines3", "sb3_contrib") if not find_spec(name)
    ]
    if missing:
        raise ImportError(
            f"learned players need {', '.join(missing)}: pip install 'clustered-bandit-gym[rl]'"
        )


def _tensors(path: str) -> Network:
    """The stack of linear layers in a model file."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            about = archive.read("data").decode()
            json.loads(about)
            file = io.BytesIO(archive.read("policy.pth"))
            weights = torch.load(file, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, UnpicklingError) as error:
        raise UserError(f"{path} is not a model that Stable-Baselines3 wrote ({error})") from None
    extractors = ("features_extractor.", "pi_features_extractor.")
    names, activation = _layers(weights)
    if not names or any(key.startswith(extractors) for key in weights):
        raise UserError(f"{path} holds a network that is not a stack of linear layers; {_ADVICE}")
    chosen = re.search(r"""activation_fn[\\"']*: [\\"']*<class '([\w.]+)'>""", about)
    activation = chosen.group(1).rpartition(".")[2] if chosen else activation
    if activation not in _ACTIVATIONS:
        raise UserError(f"{path}: activation {activation} is not known here; {_ADVICE}")
    function = getattr(torch.nn, activation)()
    layers = [(weights[one], weights[one.removesuffix("weight") + "bias"]) for one in names]

    def scores(inputs: np.ndarray, n_actions: int) -> np.ndarray:
        with torch.no_grad():
            x = torch.from_numpy(inputs)
            for weight, bias in layers[:-1]:
                x = function(torch.nn.functional.linear(x, weight, bias))
            out = torch.nn.functional.linear(x, *layers[-1]).numpy()
        # Quantile networks (QR-DQN) give several numbers for each action; their average is its value.
        return out if out.size % n_actions else out.reshape(-1, n_actions).mean(axis=0)

    return Network(scores, int(layers[0][0].shape[1]), "maskable" in about)


def _layers(weights: dict[str, Any]) -> tuple[list[str], str]:
    """Names of the weights of each layer, and the activation between them; no names if there is no known stack."""
    for pattern, last, activation in _STACKS:
        numbers = sorted(int(found[1]) for key in weights if (found := re.fullmatch(pattern, key)))
        if numbers or (last is not None and last in weights):
            template = pattern.replace("\\", "")
            names = [template.replace("(d+)", str(number)) for number in numbers]
            return names + ([last] if last is not None else []), activation
    return [], ""


def _unpickled(path: str) -> Network:
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
    space = data["observation_space"]
    policy = data["policy_class"](
        space, data["action_space"], FloatSchedule(0.0), **data.get("policy_kwargs", {})
    )
    policy.load_state_dict(parameters["policy"])
    policy.set_training_mode(False)
    parts = space.spaces if hasattr(space, "spaces") else {"": space}
    sizes = {key: int(np.prod(one.shape)) for key, one in parts.items()}

    def scores(inputs: np.ndarray, n_actions: int) -> np.ndarray:
        split = np.split(inputs, np.cumsum(list(sizes.values()))[:-1])
        obs: Any = {
            key: part.reshape(parts[key].shape) for key, part in zip(parts, split, strict=True)
        }
        # A Dict space is sorted by name, the input has the pulls first.
        if "pulls" in obs:
            obs = {"pulls": split[0], "means": split[1]}
            obs = {key: value.reshape(parts[key].shape) for key, value in obs.items()}
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(obs.get("", obs))
            if hasattr(policy, "q_net"):
                return np.asarray(policy.q_net(tensor)[0])
            return np.asarray(policy.get_distribution(tensor).distribution.logits[0])

    return Network(scores, sum(sizes.values()), "maskable" in type(policy).__module__)
