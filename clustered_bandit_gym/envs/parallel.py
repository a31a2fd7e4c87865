"""The decentralised game as a PettingZoo `ParallelEnv`. Needs the extra `pettingzoo`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.flat_env import box_features
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.judge import outcome
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.game.pulls import MAX_PULLS

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "parallel_env needs PettingZoo: pip install 'clustered-bandit-gym[pettingzoo]'"
    ) from error

#: Of each agent a dictionary of arrays, or a vector.
Observations = dict[str, Any]
Infos = dict[str, dict[str, Any]]


class ParallelClusteredBAI(ParallelEnv[str, Any, int]):  # type: ignore[misc]
    """N agents that act at once, each for itself: pull an arm, idle, or commit to an arm and leave.

    ## Action Space
    `Discrete(2K + 1)` for each agent: k < K pulls arm k, K stays idle, K + 1 + k commits to arm k.
    An agent that has committed is terminated and leaves `env.agents`.

    ## Observation Space
    A `Dict`. `pulls` and `means`, (K,): the agent's own counts and average rewards. With
    `communication="broadcast"` also `heard_pulls` and `heard_means`, (N − 1, K): the same of the
    other agents, as far as they have sent it. Row j is the (j + 1)-th agent after this one in
    cyclic order, so that one network can serve all agents.

    With `observation="box"` the same as a vector of 4·K (with broadcast 4·N·K) + 1 numbers in
    [−1, 1], the features of the Box ids: own arms first, then what was heard; at last the used
    share of `max_cycles`.

    ## Communication
    The ledger is that of the central game. An agent that commits sends its arm: ⌈log2 K⌉ bits up.
    With "broadcast" every pull is also reported, as its arm and its reward (⌈log2 K⌉ bits and one
    real up), and forwarded to every other agent still present (⌈log2 N⌉ bits for the sender,
    ⌈log2 K⌉ bits and one real down each). With "none" agents hear nothing: the naive world.

    ## Rewards
    −`pull_cost` for a pull; −`error_penalty` for committing to an arm that is not the agent's best.
    With `rewards="shared"` every agent present gets the sum over all agents. Rewards depend on the
    truth and are meant for training: a policy under test must not read them.

    ## Episode End
    An agent terminates when it commits. All that are left are truncated after `max_cycles` steps,
    or when another step could exceed `max_pulls`. In the step that ends the episode, `infos` of the
    agents that leave hold the outcome with the keys of `ClusteredBAIEnv` (`correct`,
    `agent_correct`, `pulls`, `communication`, ...); in every step of an agent that pulls,
    `infos[agent]["sample"]` is its reward draw.

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
        "is_parallelizable": True,
        **ClusteredBAIEnv.metadata,
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
        _check("communication", communication, ("none", "broadcast"))
        _check("rewards", rewards, ("agent", "shared"))
        _check("observation", observation, ("dict", "box"))
        if max_cycles is not None and max_cycles < 1:
            raise UserError(f"max_cycles must be at least 1 (or None: no limit), got {max_cycles}")
        # It draws the games, holds what was pulled, and draws pictures.
        core = ClusteredBAIEnv(render_mode=render_mode, **settings)
        n, k = core.n_agents, core.n_arms
        if core.max_pulls is not None and core.max_pulls < n:
            raise UserError(
                f"max_pulls = {core.max_pulls} is less than one pull for each of {n} agents"
            )
        self._core = core
        self.communication = communication
        self.rewards = rewards
        self.max_cycles = max_cycles
        self.render_mode = render_mode
        self.observation = observation
        self.n_arms = k
        self.possible_agents = [f"agent_{i}" for i in range(n)]
        self.agents: list[str] = []
        self._index = {name: i for i, name in enumerate(self.possible_agents)}
        self._broadcast = communication == "broadcast"
        # One space object for each agent: a space carries its own generator for sampling.
        self._observation_spaces = {name: self._space() for name in self.possible_agents}
        self._action_spaces = {name: spaces.Discrete(2 * k + 1) for name in self.possible_agents}
        self.state_space = spaces.Box(-np.inf, np.inf, (2 * n * k,), np.float64)

    def _space(self) -> spaces.Space[Any]:
        n, k = len(self.possible_agents), self.n_arms
        if self.observation == "box":
            return spaces.Box(-1.0, 1.0, (4 * k * (n if self._broadcast else 1) + 1,), np.float32)
        shapes: dict[str, tuple[int, ...]] = {"": (k,)}
        if self._broadcast:
            shapes["heard_"] = (n - 1, k)
        parts: dict[str, spaces.Space[Any]] = {}
        for prefix, shape in shapes.items():
            parts[prefix + "pulls"] = spaces.Box(0, MAX_PULLS, shape, np.int64)
            parts[prefix + "means"] = spaces.Box(-np.inf, np.inf, shape, np.float64)
        return spaces.Dict(parts)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self._action_spaces[agent]

    @property
    def federation(self) -> Federation:
        """The play of the current episode, with its ledger."""
        return self._core.federation

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        known = ("instance_seed", "play_seed")
        given = {name: value for name, value in (options or {}).items() if name in known}
        if unknown := sorted(set(options or {}) - set(known)):
            # Not an error: PettingZoo's own tests pass an option that no environment knows.
            gym.logger.warn(f"unknown reset options {unknown} are ignored; known: {known}")
        _, told = self._core.reset(seed=seed, options=given)
        self.agents = self.possible_agents[:]
        self._committed: Ints = np.full(len(self.agents), -1)
        self._cycles = 0
        return self._observe(self.agents), {agent: dict(told) for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        acting, k = self.agents, self.n_arms
        if set(actions) != set(acting):
            raise UserError(
                f"expected one action for each of {acting}, got actions for {sorted(actions)}"
            )
        if not acting:
            return {}, {}, {}, {}, {}
        who = np.array([self._index[agent] for agent in acting])
        choice = np.array([actions[agent] for agent in acting])
        if choice.dtype.kind not in "iu" or choice.min() < 0 or choice.max() > 2 * k:
            raise UserError(f"an action is an integer from 0 to {2 * k}, got {actions}")
        gains: Floats = np.zeros(len(self.possible_agents))
        infos: Infos = {agent: {} for agent in acting}
        pulling, leaving = choice < k, choice > k
        if pulling.any():
            pullers = who[pulling]
            gains[pullers] -= self._core.pull_cost
            samples = self._pull(pullers, choice[pulling])
            for i, sample in zip(pullers.tolist(), samples.tolist(), strict=True):
                infos[self.possible_agents[i]]["sample"] = sample
        if leaving.any():
            self._commit(who[leaving], choice[leaving] - k - 1, gains)
        self.federation.rounds += bool(leaving.any() or (self._broadcast and pulling.any()))
        self._cycles += 1
        if self.rewards == "shared":
            gains[:] = gains.sum()
        present = self._committed < 0
        cut = bool(present.any()) and self._at_limit(int(present.sum()))
        terminated = {agent: not present[self._index[agent]] for agent in acting}
        truncated = {agent: cut and not terminated[agent] for agent in acting}
        self.agents = [agent for agent in acting if not (cut or terminated[agent])]
        if not self.agents:
            result = self._end(self._committed if present.sum() == 0 else None)
            infos = {agent: info | result for agent, info in infos.items()}
        if self.render_mode == "human":
            self.render()
        rewards = {agent: float(gains[self._index[agent]]) for agent in acting}
        return self._observe(acting), rewards, terminated, truncated, infos

    def _at_limit(self, present: int) -> bool:
        """Whether the episode must end, with `present` agents that could pull."""
        if self.max_cycles is not None and self._cycles >= self.max_cycles:
            return True
        return self.federation.pulls + present > min(self.federation.max_pulls, MAX_PULLS)

    def _pull(self, who: Ints, arms: Ints) -> Floats:
        """One pull at each of `who`; with broadcast, their reports."""
        federation = self.federation
        samples = federation.draw(who, arms, 1)
        pulls, means = self._core.seen
        pulls[who, arms] += 1
        means[who, arms] += (samples - means[who, arms]) / pulls[who, arms]
        if self._broadcast:
            ledger, phase = federation.ledger, federation.current_phase
            bits = bits_for(self.n_arms)
            ledger.record(phase, "up", "report", who, bits, 1)
            # Each report reaches everybody present but its sender.
            hearers = np.flatnonzero(self._committed < 0)
            receivers = np.tile(hearers, who.size)
            receivers = receivers[receivers != np.repeat(who, hearers.size)]
            bits += bits_for(len(self.possible_agents))
            ledger.record(phase, "down", "report", receivers, bits, 1)
        return samples

    def _commit(self, who: Ints, arms: Ints, gains: Floats) -> None:
        """`who` send their `arms` and leave; wrong ones are charged in `gains` (N,)."""
        federation, truth = self.federation, self._core.truth
        phase = federation.current_phase
        federation.ledger.record(phase, "up", "arm", who, bits_for(self.n_arms), 0)
        right = truth.good_arms(self._core.epsilon)[truth.clusters[who], arms]
        gains[who[~right]] -= self._core.error_penalty
        self._committed[who] = arms

    def _end(self, arms: Ints | None) -> dict[str, Any]:
        """The last `info`; `arms` (N,) is what the agents chose, None if not all have."""
        federation = self.federation
        if arms is not None:
            federation.stop(arms)
        self._core.end_episode(arms)
        per_agent, sent = federation.pulls_per_agent.copy(), federation.ledger.summary()
        return outcome(self._core.truth, arms, per_agent, sent, self._core.epsilon)

    def _observe(self, agents: list[str]) -> Observations:
        n = len(self.possible_agents)
        pulls, means = self._core.seen
        seen: Observations = {}
        for agent in agents:
            i = self._index[agent]
            if self.observation == "box":
                rows = np.arange(i, i + n) % n if self._broadcast else [i]
                time = np.array([self._cycles / self.max_cycles if self.max_cycles else 0.0])
                sigma = self.federation.problem.sigma
                seen[agent] = box_features(pulls[rows][None], means[rows][None], sigma, time)[0]
                continue
            seen[agent] = {"pulls": pulls[i].copy(), "means": means[i].copy()}
            if self._broadcast:
                others = np.arange(i + 1, i + n) % n
                seen[agent]["heard_pulls"] = pulls[others]
                seen[agent]["heard_means"] = means[others]
        return seen

    def state(self) -> NDArray[np.float64]:
        """(2·N·K,) counts and means of all agents, for a centralised critic."""
        pulls, means = self._core.seen
        state: NDArray[np.float64] = np.concatenate([pulls.ravel(), means.ravel()])
        return state

    def render(self) -> Any:
        """A frame (H, W, 3) uint8 in mode "rgb_array", text in mode "ansi"; "human": a window."""
        return self._core.render()

    def close(self) -> None:
        self._core.close()


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{name} must be one of {', '.join(known)}, got {value!r}")


#: PettingZoo's name for it.
parallel_env = ParallelClusteredBAI
