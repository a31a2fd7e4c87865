"""The decentralised game as a PettingZoo `ParallelEnv`: every agent acts for itself. Needs the extra `pettingzoo`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.flat_env import box_features
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.judge import outcome
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.game.pulls import MAX_PULLS
from clustered_bandit_gym.game.seeds import episode_seeds

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "parallel_env needs PettingZoo: pip install 'clustered-bandit-gym[pettingzoo]'"
    ) from error

COMMUNICATION = ("none", "broadcast")
REWARDS = ("agent", "shared")
OBSERVATIONS = ("dict", "box")

#: Of each agent a dictionary of arrays, or a vector.
Observations = dict[str, Any]


class ParallelClusteredBAI(ParallelEnv):  # type: ignore[type-arg]
    """N agents that act at the same time, each for itself: pull an arm, stay idle, or commit to an arm and leave.

    ## Action Space
    `Discrete(2K + 1)` for each agent: k < K pulls arm k, K stays idle, K + 1 + k commits to arm k. An agent that has
    committed is terminated and leaves `env.agents`.

    ## Observation Space
    A `Dict`. `pulls` and `means`, (K,): the agent's own counts and average rewards. With `communication="broadcast"`
    also `heard_pulls` and `heard_means`, (N − 1, K): the same of the other agents, as far as they have sent it. Row j
    is the (j + 1)-th agent after this one in cyclic order, so that one network can serve all agents.

    With `observation="box"` the same as a vector of 4·K (with broadcast 4·N·K) + 1 numbers in [−1, 1], the
    features of the Box ids: own arms first, then what was heard; at last the used share of `max_cycles`.

    ## Communication
    The ledger is that of the central game. An agent that commits sends its arm: ⌈log2 K⌉ bits up. With "broadcast"
    every pull is also reported, as its arm and its reward (⌈log2 K⌉ bits and one real up), and forwarded to every
    other agent still present (⌈log2 N⌉ bits for the sender, ⌈log2 K⌉ bits and one real down each). With "none" agents
    hear nothing: the naive world.

    ## Rewards
    −`pull_cost` for a pull; −`error_penalty` for committing to an arm that is not the agent's best. With
    `rewards="shared"` every agent present gets the sum over all agents. Rewards depend on the truth and are meant for
    training: a policy under test must not read them.

    ## Episode End
    An agent terminates when it commits. All that are left are truncated after `max_cycles` steps, or when another step
    could exceed `max_pulls`. In the step that ends the episode, `infos` of the agents that leave hold the outcome with
    the keys of `ClusteredBAIEnv` (`correct`, `agent_correct`, `pulls`, `communication`, ...); in every step of an agent
    that pulls, `infos[agent]["sample"]` is its reward draw.

    Args:
        communication: "none" or "broadcast".
        rewards: "agent" or "shared".
        max_cycles: steps after which the episode is truncated; None for no limit.
        render_mode: None, "human", "rgb_array" or "ansi".
        observation: "dict" or "box".
        settings: of `ClusteredBAIEnv`: `generator`, `n_agents`, `delta`, `pull_cost`, ...

    `reset(options=...)` takes `instance_seed` and `play_seed`, as the central environment does.
    """

    metadata: dict[str, Any] = {
        "name": "clustered_bai_v0",
        "render_modes": ["human", "rgb_array", "ansi"],
        "render_fps": ClusteredBAIEnv.metadata["render_fps"],
        "is_parallelizable": True,
    }

    def __init__(
        self,
        communication: str = "none",
        rewards: str = "agent",
        max_cycles: int | None = None,
        render_mode: str | None = None,
        observation: str = "dict",
        **settings: Any,
    ) -> None:
        if communication not in COMMUNICATION:
            raise UserError(
                f"communication must be one of {', '.join(COMMUNICATION)}, got {communication!r}"
            )
        if rewards not in REWARDS:
            raise UserError(f"rewards must be one of {', '.join(REWARDS)}, got {rewards!r}")
        if observation not in OBSERVATIONS:
            raise UserError(
                f"observation must be one of {', '.join(OBSERVATIONS)}, got {observation!r}"
            )
        if max_cycles is not None and max_cycles < 1:
            raise UserError(f"max_cycles must be at least 1 (or None: no limit), got {max_cycles}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UserError(
                f"render_mode must be None or one of {self.metadata['render_modes']}, got {render_mode!r}"
            )
        self._game = ClusteredBAIEnv(**settings)
        if self._game.max_pulls is not None and self._game.max_pulls < self._game.n_agents:
            raise UserError(
                f"max_pulls = {self._game.max_pulls} is less than one pull for each of {self._game.n_agents} agents"
            )
        self.communication, self.rewards, self.max_cycles = communication, rewards, max_cycles
        self.render_mode, self.observation = render_mode, observation
        n, k = self._game.n_agents, self._game.n_arms
        self.n_arms = k
        self.possible_agents = [f"agent_{i}" for i in range(n)]
        self.agents: list[str] = []
        self._index = {name: i for i, name in enumerate(self.possible_agents)}
        self._broadcast = communication == "broadcast"
        # PettingZoo wants one space object for each agent: a space carries its own generator for sampling.
        self._observation_spaces: dict[str, spaces.Space[Any]] = {
            name: _observation_space(n, k, self._broadcast, observation)
            for name in self.possible_agents
        }
        self._action_spaces = {name: spaces.Discrete(2 * k + 1) for name in self.possible_agents}
        self.state_space = spaces.Box(-np.inf, np.inf, (2 * n * k,), np.float64)
        # (N, N − 1): the others of each agent, in cyclic order after it.
        self._others: Ints = (np.arange(n)[:, None] + np.arange(1, n)) % n
        self._rng: np.random.Generator | None = None
        self._federation: Federation | None = None

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self._action_spaces[agent]

    @property
    def federation(self) -> Federation:
        """The play of the current episode, with its ledger."""
        if self._federation is None:
            raise gym.error.ResetNeeded("There is no play yet: call env.reset() first")
        return self._federation

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, dict[str, Any]]]:
        if seed is not None or self._rng is None:
            self._rng, _ = seeding.np_random(seed)
        options = options or {}
        if unknown := set(options) - {"instance_seed", "play_seed"}:
            # Not an error: PettingZoo's own tests pass an option that no environment knows.
            gym.logger.warn(
                f"unknown reset options {sorted(unknown)} are ignored; known: instance_seed, play_seed"
            )
        instance_seed, play_seed = episode_seeds(self._rng)
        self._instance = self._game.draw_instance(options.get("instance_seed", instance_seed))
        self._game.check_size(self._instance)
        self._federation = self._game.federation_on(
            self._instance, options.get("play_seed", play_seed)
        )
        n, k = self._instance.n_agents, self._instance.n_arms
        self.agents = self.possible_agents[:]
        self._pulls: Ints = np.zeros((n, k), dtype=np.int64)
        self._means = np.zeros((n, k))
        self._present = np.ones(n, dtype=np.bool_)
        self._committed: Ints = np.full(n, -1)
        self._cycles = 0
        self._over = False
        problem = self._federation.problem.values()
        if self.render_mode == "human":
            self.render()
        return self._observe(self.agents), {agent: dict(problem) for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        Observations, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        federation, k = self.federation, self.n_arms
        acting = self.agents
        if set(actions) != set(acting):
            raise UserError(
                f"expected one action for each of {acting}, got actions for {sorted(actions)}"
            )
        who = np.array([self._index[agent] for agent in acting], dtype=np.int64)
        choice = np.array([actions[agent] for agent in acting])
        if who.size and (choice.dtype.kind not in "iu" or choice.min() < 0 or choice.max() > 2 * k):
            raise UserError(f"an action is an integer from 0 to {2 * k}, got {actions}")
        if not who.size:
            return {}, {}, {}, {}, {}
        gains = np.zeros(len(self.possible_agents))
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in acting}
        pulling, leaving = choice < k, choice > k
        if pulling.any():
            samples = self._pull(who[pulling], choice[pulling])
            gains[who[pulling]] -= self._game.pull_cost
            for i, sample in zip(who[pulling].tolist(), samples.tolist(), strict=True):
                infos[self.possible_agents[i]]["sample"] = sample
        if leaving.any():
            out, arms = who[leaving], choice[leaving] - k - 1
            self._committed[out] = arms
            federation.ledger.record(federation.current_phase, "up", "arm", out, bits_for(k), 0)
            right = self._instance.good_arms(self._game.epsilon)[self._instance.clusters[out], arms]
            gains[out[~right]] -= self._game.error_penalty
            self._present[out] = False
        self._cycles += 1
        federation.rounds += bool(leaving.any() or (self._broadcast and pulling.any()))
        remaining = int(self._present.sum())
        cut = remaining > 0 and (
            (self.max_cycles is not None and self._cycles >= self.max_cycles)
            or federation.pulls + remaining > min(federation.max_pulls, MAX_PULLS)
        )
        if self.rewards == "shared":
            gains[:] = gains.sum()
        terminations = {agent: not self._present[self._index[agent]] for agent in acting}
        truncations = {agent: bool(cut) and not terminations[agent] for agent in acting}
        self.agents = [] if cut else [agent for agent in acting if not terminations[agent]]
        if not self.agents:
            self._over = True
            result = self._outcome()
            for agent in acting:
                infos[agent] |= result
        rewards = {agent: float(gains[self._index[agent]]) for agent in acting}
        if self.render_mode == "human":
            self.render()
        return self._observe(acting), rewards, terminations, truncations, infos

    def _pull(self, who: Ints, arms: Ints) -> np.ndarray:
        """One pull at each of `who`; enters it into the counts and, with broadcast, into the ledger."""
        federation = self.federation
        samples = federation.draw(who, arms, 1)
        self._pulls[who, arms] += 1
        self._means[who, arms] += (samples - self._means[who, arms]) / self._pulls[who, arms]
        if self._broadcast:
            ledger, phase, arm_bits = (
                federation.ledger,
                federation.current_phase,
                bits_for(self.n_arms),
            )
            ledger.record(phase, "up", "report", who, arm_bits, 1)
            # Each report reaches everybody present but its sender.
            hearers = np.flatnonzero(self._present)
            receivers = np.tile(hearers, who.size)
            receivers = receivers[receivers != np.repeat(who, hearers.size)]
            ledger.record(
                phase,
                "down",
                "report",
                receivers,
                bits_for(len(self.possible_agents)) + arm_bits,
                1,
            )
        return samples

    def _outcome(self) -> dict[str, Any]:
        federation = self.federation
        arms = None if (self._committed < 0).any() else self._committed
        if arms is not None:
            federation.stop(arms)
        return outcome(
            self._instance,
            arms,
            federation.pulls_per_agent.copy(),
            federation.ledger.summary(),
            self._game.epsilon,
        )

    def _observe(self, agents: list[str]) -> Observations:
        seen: Observations = {}
        for agent in agents:
            i = self._index[agent]
            seen[agent] = {"pulls": self._pulls[i].copy(), "means": self._means[i].copy()}
            if self._broadcast:
                others = self._others[i]
                seen[agent] |= {
                    "heard_pulls": self._pulls[others],
                    "heard_means": self._means[others],
                }
        if self.observation == "box":
            return {agent: self._vector(one) for agent, one in seen.items()}
        return seen

    def _vector(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        """What an agent sees as the vector of a Box id."""
        pulls, means = seen["pulls"][None], seen["means"][None]
        if self._broadcast:
            pulls = np.concatenate([pulls, seen["heard_pulls"]])
            means = np.concatenate([means, seen["heard_means"]])
        time = np.array([self._cycles / self.max_cycles if self.max_cycles else 0.0])
        return box_features(pulls[None], means[None], self.federation.problem.sigma, time)[0]

    def state(self) -> np.ndarray:
        """(2·N·K,) counts and means of all agents, for a centralised critic."""
        return np.concatenate([self._pulls.ravel(), self._means.ravel()])

    def render(self) -> Any:
        """A frame (H, W, 3) uint8 in mode "rgb_array", text in mode "ansi"; mode "human" shows a window."""
        if self.render_mode is None:
            gym.logger.warn(
                "env.render() needs a render_mode, e.g. parallel_env(render_mode='rgb_array')"
            )
            return None
        federation = self.federation
        view = View(
            federation.problem,
            self._pulls,
            self._means,
            federation.pulls_per_agent,
            federation.ledger.cost,
        )
        if self._over:
            judgement = federation.judgement
            view = view.ended(self._instance, None if judgement is None else judgement.arms)
        return self._game.picture(view, self.render_mode)

    def close(self) -> None:
        self._game.close()

    def __getstate__(self) -> dict[str, Any]:
        # A federation refuses to be pickled as such.
        play = None if self._federation is None else self._federation.snapshot()
        return {**self.__dict__, "_federation": play}

    def __setstate__(self, state: dict[str, Any]) -> None:
        play = state["_federation"]
        self.__dict__.update(state, _federation=None if play is None else Federation.restore(play))


def _observation_space(
    n_agents: int, n_arms: int, broadcast: bool, observation: str
) -> spaces.Space[Any]:
    if observation == "box":
        rows = n_agents if broadcast else 1
        return spaces.Box(-1.0, 1.0, (4 * rows * n_arms + 1,), np.float32)

    def pair(prefix: str, shape: tuple[int, ...]) -> dict[str, spaces.Space[Any]]:
        return {
            f"{prefix}pulls": spaces.Box(0, MAX_PULLS, shape, np.int64),
            f"{prefix}means": spaces.Box(-np.inf, np.inf, shape, np.float64),
        }

    heard = pair("heard_", (n_agents - 1, n_arms)) if broadcast else {}
    return spaces.Dict({**pair("", (n_arms,)), **heard})


def parallel_env(
    communication: str = "none",
    rewards: str = "agent",
    max_cycles: int | None = None,
    render_mode: str | None = None,
    **settings: Any,
) -> ParallelClusteredBAI:
    """The decentralised game as a PettingZoo `ParallelEnv`; arguments are those of `ParallelClusteredBAI`."""
    return ParallelClusteredBAI(communication, rewards, max_cycles, render_mode, **settings)
