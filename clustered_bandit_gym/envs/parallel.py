"""The decentralised game as a PettingZoo `ParallelEnv`. Needs the extra `pettingzoo`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from gymnasium import spaces

from clustered_bandit_gym._types import Floats, Ints, Values
from clustered_bandit_gym.envs.actions import integers
from clustered_bandit_gym.envs.env import ClusteredBAIEnv, Space, tables
from clustered_bandit_gym.envs.flat_env import box_features
from clustered_bandit_gym.errors import UnknownSetting, UserError, needs_extra
from clustered_bandit_gym.game.checks import check_choice, whole
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import bits_for

with needs_extra("pettingzoo"):
    from pettingzoo import ParallelEnv

Infos = dict[str, Values]


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
    [−1, 1], the features of the Box ids (see `box_features`): own arms first, then what was heard;
    at last the used share of `max_cycles`.

    ## Communication
    The ledger is that of the central game. An agent that commits sends its arm: ⌈log2 K⌉ bits up.
    With "broadcast" every pull is also reported, as its arm and its reward (⌈log2 K⌉ bits and one
    real up), and forwarded to every other agent still present (⌈log2 N⌉ bits for the sender,
    ⌈log2 K⌉ bits and one real down each). With "none" agents hear nothing: the naive world.

    ## Rewards
    −`pull_cost` for a pull; −`error_penalty` for committing to an arm that is not the agent's best.
    Rewards depend on the truth and are meant for training: a policy under test must not read them.

    ## Episode End
    An agent terminates when it commits. All that are left are truncated after `max_cycles` steps,
    or when another step could exceed `max_pulls`. In the step that ends the episode, `infos` of the
    agents that leave hold the outcome with the keys of `ClusteredBAIEnv` (`correct`,
    `agent_correct`, `pulls`, `communication`, ...); in every step of an agent that pulls,
    `infos[agent]["sample"]` is its reward draw.

    Args:
        communication: "none" or "broadcast".
        max_cycles: steps after which the episode is truncated; None for no limit.
        observation: "dict" or "box".
        settings: of `ClusteredBAIEnv`: `generator`, `n_agents`, `pull_cost`, `render_mode`, ...

    `reset(options=...)` takes `instance_seed` and `play_seed`, as the central environment does.
    """

    metadata: Values = {
        "name": "clustered_bai_v0",
        "is_parallelizable": True,
        **ClusteredBAIEnv.metadata,
    }

    def __init__(
        self,
        communication: str = "none",
        max_cycles: int | None = None,
        *,
        observation: str = "dict",
        **settings: Any,
    ) -> None:
        self.communication = check_choice("communication", communication, ("none", "broadcast"))
        self.observation = check_choice("observation", observation, ("dict", "box"))
        self.max_cycles = None if max_cycles is None else whole(max_cycles, "max_cycles")
        # It draws the games, holds what was pulled, and draws pictures.
        try:
            self._core = ClusteredBAIEnv(**settings)
        except UnknownSetting as error:
            raise error.among(ParallelClusteredBAI) from None
        self.render_mode = self._core.render_mode
        self.n_arms = self._core.n_arms
        self.possible_agents = [f"agent_{i}" for i in range(self._core.n_agents)]
        self.agents: list[str] = []
        self._broadcasts = communication == "broadcast"
        #: How many agents each one knows of.
        self._known = len(self.possible_agents) if self._broadcasts else 1
        # Space objects of its own for each agent: a space carries a generator for sampling.
        actions = 2 * self.n_arms + 1
        self._spaces = {
            name: (self._space(), spaces.Discrete(actions)) for name in self.possible_agents
        }

    def _space(self) -> Space:
        k = self.n_arms
        if self.observation == "box":
            return spaces.Box(-1, 1, (4 * k * self._known + 1,), np.float32)
        parts = tables((k,))
        if self._broadcasts:
            heard = tables((self._known - 1, k))
            parts |= {f"heard_{name}": space for name, space in heard.items()}
        return spaces.Dict(parts)

    def observation_space(self, agent: str) -> Space:
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self._spaces[agent][1]

    @property
    def federation(self) -> Federation:
        """The play of the current episode, with its ledger."""
        return self._core.federation

    def reset(self, seed: int | None = None, options: Values | None = None) -> tuple[Values, Infos]:
        known = ("instance_seed", "play_seed")
        seeds = {name: value for name, value in (options or {}).items() if name in known}
        if len(seeds) < len(options or ()):
            # Not an error: PettingZoo's own tests pass an option that no environment knows.
            warnings.warn(f"reset options other than {known} are ignored", stacklevel=2)
        _, told = self._core.reset(seed=seed, options=seeds)
        self.agents = self.possible_agents[:]
        self._committed = np.full(len(self.agents), -1)
        self._cycles = 0
        return self._observe(self.agents), {agent: dict(told) for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[Values, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        acting = self.agents
        k = self.n_arms
        federation = self.federation
        if set(actions) != set(acting):
            raise UserError(f"expected one action for each of {acting}, got {sorted(actions)}")
        if not acting:
            return {}, {}, {}, {}, {}
        who = np.flatnonzero(self._committed < 0)
        choice = integers([actions[agent] for agent in acting], who.shape, 2 * k + 1)
        pulling = choice < k
        leaving = choice > k
        rewards = np.where(pulling, -self._core.pull_cost, 0.0)
        infos: Infos = {agent: {} for agent in acting}
        samples = self._pull(who[pulling], choice[pulling])
        for row, sample in zip(np.flatnonzero(pulling), samples.tolist(), strict=True):
            infos[acting[row]]["sample"] = sample
        leavers = who[leaving]
        arms = choice[leaving] - k - 1
        self._committed[leavers] = arms
        federation.ledger.record(federation.current_phase, "up", "arm", leavers, bits_for(k), 0)
        truth = self._core.truth
        good = truth.good_arms(self._core.epsilon)[truth.clusters[leavers], arms]
        rewards[leaving] -= self._core.error_penalty * ~good
        federation.rounds += bool(leaving.any() or (self._broadcasts and pulling.any()))
        self._cycles += 1
        present = who.size - leavers.size
        late = self._cycles == self.max_cycles
        cut = late or federation.pulls + present > federation.max_pulls
        terminated = dict(zip(acting, leaving.tolist(), strict=True))
        truncated = {agent: cut and not left for agent, left in terminated.items()}
        self.agents = [] if cut else [agent for agent in acting if not terminated[agent]]
        if not self.agents:
            everyone = present == 0
            answer = np.where(everyone, self._committed, -1)
            *_, outcome = self._core.end_episode(answer, stopped=everyone)
            infos = {agent: outcome | info for agent, info in infos.items()}
        elif self.render_mode == "human":
            self.render()
        gains = dict(zip(acting, rewards.tolist(), strict=True))
        return self._observe(acting), gains, terminated, truncated, infos

    def _pull(self, who: Ints, arms: Ints) -> Floats:
        """One pull at each of `who`; with broadcast, their reports."""
        federation = self.federation
        samples = federation.draw(who, arms, 1)
        pulls, means = self._core.seen
        pulls[who, arms] += 1
        means[who, arms] += (samples - means[who, arms]) / pulls[who, arms]
        if self._broadcasts:
            ledger = federation.ledger
            phase = federation.current_phase
            bits = bits_for(self.n_arms)
            ledger.record(phase, "up", "report", who, bits, 1)
            # Each report reaches everybody present but its sender.
            senders, hearers = np.meshgrid(who, np.flatnonzero(self._committed < 0), indexing="ij")
            bits += bits_for(len(self.possible_agents))
            ledger.record(phase, "down", "report", hearers[hearers != senders], bits, 1)
        return samples

    def _observe(self, agents: list[str]) -> Values:
        seen: Values = {}
        both: Any = self._core.seen
        for agent in agents:
            # The agent itself first, then those it hears.
            first = self.possible_agents.index(agent)
            pulls, means = (np.roll(table, -first, axis=0)[: self._known] for table in both)
            if self.observation == "box":
                time = self._cycles / (self.max_cycles or np.inf)
                seen[agent] = box_features(pulls, means, self.federation.problem.sigma, time)
                continue
            seen[agent] = {"pulls": pulls[0], "means": means[0]}
            if self._broadcasts:
                seen[agent] |= {"heard_pulls": pulls[1:], "heard_means": means[1:]}
        return seen

    def render(self) -> Any:
        """A frame (H, W, 3) uint8 in mode "rgb_array"; "human" shows it in a window."""
        return self._core.render()

    def close(self) -> None:
        self._core.close()


#: PettingZoo's name for it.
parallel_env = ParallelClusteredBAI
