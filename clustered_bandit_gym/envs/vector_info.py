"""The `info` of a vector environment, filled for many sub-environments at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats, Ints


class Ended(NamedTuple):
    """n episodes that ended in one step. No Python object per episode: most steps end a few.

    Attributes:
        which: (n,) numbers of the sub-environments.
        stopped: (n,) the learner stopped; False where the episode was cut off.
        pulls, means: (n, N, K) the last observation.
        truth: (n, N, K) mean rewards of the agents.
        right: (n, N) the recommendation was a best arm. wrong: (n,) agents for which it was not, 0 if cut off.
        n_pulls: (n,) pulls of the episode.
    """

    which: Ints
    stopped: np.ndarray
    pulls: Ints
    means: Floats
    truth: Floats
    right: np.ndarray
    wrong: Ints
    n_pulls: Ints

    def outcome(self) -> dict[str, Any]:
        """The entries of the single environment's `info` at the end, a row for each episode; no communication."""
        return {
            "stopped": self.stopped,
            "correct": self.stopped & (self.wrong == 0),
            "agent_correct": self.right,
            "wrong_agents": self.wrong,
            "pulls": self.n_pulls,
            "pulls_per_agent": self.pulls.sum(axis=2),
            "best_arms": self.truth.argmax(axis=2),
        }


class VectorInfo:
    """Enters values into the `info` of `num_envs` sub-environments, with Gymnasium's masks (`_sample` beside `sample`).

    What `VectorEnv._add_info` does for one sub-environment at a time.
    """

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._told: dict[str, Any] | None = None  # what the three below were made from
        self._constants: dict[str, np.ndarray] = {}
        self._constant_masks: list[str] = []
        self._others: dict[str, Any] = {}

    def tell(self, infos: dict[str, Any], which: Ints, told: dict[str, Any]) -> None:
        """Enter what the learner is told. Numbers that are the same for all instances need no array of their own."""
        if told is not self._told:
            self._told = told
            plain = {
                key: value
                for key, value in told.items()
                if value is None or isinstance(value, int | float)
            }
            self._constants = {
                key: _read_only(np.full(self._num_envs, value)) for key, value in plain.items()
            }
            self._constant_masks = ["_" + key for key in plain]
            self._others = {key: value for key, value in told.items() if key not in plain}
        mask = np.zeros(self._num_envs, dtype=np.bool_)
        mask[which] = True
        infos.update(self._constants)
        infos.update(dict.fromkeys(self._constant_masks, mask))
        if self._others:
            self.enter(infos, which, self._others)

    def enter(self, infos: dict[str, Any], which: Ints, values: dict[str, Any]) -> None:
        """`_add_info` for many sub-environments at once: `values` hold a row for each, a constant, or a dictionary."""
        mask = np.zeros(self._num_envs, dtype=np.bool_)
        mask[which] = True
        for key, value in values.items():
            if isinstance(value, np.ndarray):
                array = infos.get(key)
                if array is None:
                    array = np.zeros((self._num_envs, *value.shape[1:]), dtype=value.dtype)
                    infos[key] = array
                    if value.dtype.kind == "O":
                        array.fill(None)
                array[which] = value
            elif isinstance(value, dict):
                self.enter(infos.setdefault(key, {}), which, value)
            else:
                array = infos.setdefault(key, np.full(self._num_envs, None, dtype=object))
                for i in which.tolist():
                    array[i] = value  # one by one: NumPy would spread a tuple over the array
            name = "_" + key
            infos[name] = infos[name] | mask if name in infos else mask

    def end(
        self, infos: dict[str, Any], ended: Ended, outcome: dict[str, Any], final: bool
    ) -> None:
        """Enter how episodes ended; `final` as `final_info` and `final_obs`, as autoreset in the same step asks for."""
        if not final:
            self.enter(infos, ended.which, outcome)
            return
        cut = ended.which[~ended.stopped]
        if cut.size:
            # The last pull of a truncated episode belongs to that episode's info.
            last: dict[str, Any] = {}
            self.enter(last, cut, {"sample": infos["sample"][cut]})
            infos["sample"][cut], infos["_sample"][cut] = 0.0, False
            infos["final_info"] = last
        obs = np.full(self._num_envs, None, dtype=object)
        obs[ended.which] = [
            {"pulls": p, "means": m} for p, m in zip(ended.pulls, ended.means, strict=True)
        ]
        self.enter(infos, ended.which, {"final_info": outcome})
        infos["final_obs"], infos["_final_obs"] = obs, infos["_final_info"]


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
