"""`ClusteredBAIEnv`: Gymnasium interface to a `Federation`, one pull per step."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from clustered_bandit_gym._types import Floats, Ints, Shape, Values
from clustered_bandit_gym.envs.actions import empirical_best, read_action
from clustered_bandit_gym.envs.game import GameSettings, Law
from clustered_bandit_gym.errors import UnknownSetting, UserError, needs_extra
from clustered_bandit_gym.game.checks import amount
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.game.pulls import MAX_PULLS, Simulator
from clustered_bandit_gym.game.seeds import Seed, episode_seeds
from clustered_bandit_gym.policy import STOP, check_choice

Space = spaces.Space[Any]
ResetResult = tuple[Any, Values]
StepResult = tuple[Any, float, bool, bool, Values]


ENDED = "Cannot call env.step() before env.reset() or after the end of an episode"


class ClusteredBAIEnv(GameSettings, gym.Env[Any, Any]):
    """Best-arm identification for N agents in M hidden clusters, one pull per step.

    ## Description
    Every agent of cluster m plays the same K-armed bandit m; the clusters are unknown. The
    learner must name the best arm of *every* agent and may err on any of them with probability
    at most δ (δ-PC, fixed confidence), with few pulls and little communication. A step is one
    pull, ordered by the learner and answered by the agent, or the stop with one recommendation
    per agent.

    ## Action Space
    `OneOf((MultiDiscrete([N, K]), MultiDiscrete([K] * N)))`:

    | action | meaning |
    |---|---|
    | `(cbg.PULL, (agent, arm))` | agent `agent` pulls arm `arm` once and sends the reward |
    | `(cbg.STOP, arms)` | stop; `arms[i]` is the recommendation for agent i |

    Integers of any type are accepted, in tuples, lists or arrays. Anything else (an index out
    of range, a wrong number of arms, floats, booleans) raises `ValueError` and changes nothing.
    Most learning libraries need a flat action space: every id has a variant with one
    (`ClusteredBAI-Tiny-Discrete-v0`), and one with a flat observation as well
    (`ClusteredBAI-Tiny-Box-v0`). `DiscreteActions` is a wrapper for environments of your own.

    ## Observation Space
    `Dict(pulls=Box (N, K) int64, means=Box (N, K) float64)`: how often each arm was pulled at
    each agent, and the average of its rewards, 0 without a pull: what the *learner* has seen.
    Both are fresh copies at every step. With very many agents these spaces are huge; they are
    built when first asked for, so `gym.make(..., disable_env_checker=True)` and
    `new_federation` do not build them.

    ## Rewards
    `-pull_cost` for a pull, `-error_penalty` times the number of wrong agents at the stop. With
    the defaults 0.001 and 1 a wrong agent costs as much as a thousand pulls, so that
    exploration pays: on the default instances guessing returns −8.1 on average, and twenty
    pulls of each of the three arms that can be best −1.0; on `ClusteredBAI-Tiny-v0` −2.7 and,
    with ten pulls of each arm, −0.18. To be *certain* from scratch takes far more: δ-PC is a
    constraint, not a reward. Lower `pull_cost` for it, or let the harness judge by correctness
    and pulls.

    ## Starting State
    No pulls. Every `reset` draws a fresh instance from the generator, unless `instance` or
    `instance_seed` fixes one. `info` holds the problem as numbers: `n_agents, n_arms,
    n_clusters, delta, eta, eta1, sigma, support, epsilon, max_pulls_per_agent`. What the
    learner is not told, and a limit that there is not, is 0; the support is then (−inf, inf). η
    is inf for a single cluster. `reset(options=...)` takes `instance_seed` and `play_seed`
    (ints or `SeedSequence`s): the same two seeds give the same instance and the same rewards
    for the same pulls; `source`, a `game.pulls.Source` that draws the rewards instead; and
    `local_pulls=True`: pulls are the agents' own, hence neither billed nor shown in the
    observation; `info` then holds the `sample` alone.

    ## Episode End
    *Termination* at the stop. *Truncation* at the step that makes pull number `max_pulls`; by
    default there is no limit. `info` has the same keys at every step:

    | key | meaning |
    |---|---|
    | `sample` | the reward drawn by the pull; 0 at the stop |
    | `pulls`, `pulls_per_agent` | total so far, and (N,) |
    | `communication` | so far: `cost, bits_up, bits_down, reals_up, reals_down` |
    | `stopped` | the learner stopped |
    | `correct` | every agent was recommended a best arm |
    | `agent_correct` | (N,) the agent was recommended a best arm |
    | `wrong_agents` | number of agents that were recommended another arm |
    | `best_arms` | (N,) the truth |

    The last five are False, 0 and −1 before the end: nothing of the truth shows. A truncated
    episode recommends nothing: no agent is right and none is wrong. The flat ids have a limit
    and ask for an answer there, see `FlatClusteredBAIEnv`. (`max_episode_steps` of `gym.make`
    adds a wrapper: where that truncates, `info` does not know of the end. Use `max_pulls`.)

    ## Arguments
    ```python
    gym.make("ClusteredBAI-v0", n_agents=30, delta=0.01)  # a setting of the generator; confidence
    gym.make("ClusteredBAI-v0", generator="paper-random", n_arms=50, eta=0.2)
    gym.make("ClusteredBAI-v0", instance=cbg.Instance(means, clusters))  # or a saved one's path
    ```

    Args:
        instance: a fixed instance, or the path of one that `Instance.save` wrote, or of a CSV file
            with means or with (cluster, arm, reward) rows (see the generator "fixed-means", whose
            settings it takes).
        generator: name of a generator (`cbg.generators.GENERATORS`; default "paper-small"),
            ``module:callable``, or a callable `rng -> Instance`; all instances it draws must have
            the same N and K.
        generator_kwargs: its settings. They may also be given as keywords of their own:
            `n_agents`, `n_clusters`, `n_arms`, `eta` and whatever else the generator takes.
        instance_seed: draw one instance with this seed, once, and play it in every episode.
        delta: allowed probability of error.
        told: what the learner is told instead of what the generator declares (the truth, where it
            declares nothing): a dict with any of `n_clusters`, `eta`, `eta1`, `support` (low,
            high); None hides the value, "truth" tells it.
        sigma: told sub-Gaussian constant; default is that of the rewards.
        check: refuse values in `told` and `sigma` that the instance does not satisfy; False allows
            misspecified problems.
        epsilon: an arm counts as right if its mean is within this distance of the agent's best.
        max_pulls: truncate at this many pulls; None for no limit.
        max_pulls_per_agent: a pull that would give an agent more than this raises
            `BudgetExceeded`, and nothing is drawn; None for no limit.
        pull_cost, error_penalty: see Rewards.
        c_b, c_r: cost of a bit and of a real number. Each step's pull is billed ⌈log2 K⌉ bits down
            and one real up; a step is one pull, so no count is sent.
        render_mode: None, "human" or "rgb_array".

    ## Vectorized environment
    `gym.make_vec("ClusteredBAI-Discrete-v0", num_envs=256)` is this game with the flat action, all
    sub-environments stepped in NumPy, with instances drawn in batches.
    `gym.make_vec("ClusteredBAI-v0", ...)` gives Gymnasium's own vectorisation.

    ## Version History
    * v0: first version
    """

    metadata: Values = {"render_modes": ["human", "rgb_array"], "render_fps": 20}
    #: What the limit costs, see `FlatClusteredBAIEnv`.
    truncation = "free"

    def __init__(
        self,
        instance: Any = None,
        generator: Any = None,
        *,
        pull_cost: float = 0.001,
        error_penalty: float = 1.0,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        if flat := sorted(settings.keys() & {"observation", "pull_sizes", "truncation"}):
            raise UnknownSetting(f"{flat[0]} is a setting of the flat ids, ...-Discrete or ...-Box")
        GameSettings.__init__(self, instance, generator, **settings)
        self.pull_cost = amount(pull_cost, "pull_cost")
        self.error_penalty = amount(error_penalty, "error_penalty")
        self.render_mode = render_mode
        #: Pulls after which an episode ends.
        self.limit = MAX_PULLS if self.max_pulls is None else self.max_pulls
        #: Bits of an order of pulls.
        self.order_bits = bits_for(self.n_arms)
        self._federation: Federation | None = None
        #: Draws the rewards of an episode without a federation.
        self._free: Simulator | None = None
        #: The truth of the episode, and its instance; None where it is made when asked for.
        self._law: Any = None
        self._instance: Instance | None = None
        self._window: Any = None
        # What `info` says before the end. To copy them takes a third of the time to make them.
        self._not_judged = np.zeros(self.n_agents, dtype=bool)
        self._no_arms = np.full(self.n_agents, -1)
        #: (N,) the arms recommended at the end, −1 for none; None while an episode goes on.
        self._answer: Ints | None = self._no_arms

    # Built when first asked for: with millions of agents they would take gigabytes.
    @cached_property
    def action_space(self) -> Space:  # type: ignore[override]
        pull = spaces.MultiDiscrete([self.n_agents, self.n_arms])
        return spaces.OneOf((pull, spaces.MultiDiscrete(np.full(self.n_agents, self.n_arms))))

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]
        return spaces.Dict(tables((self.n_agents, self.n_arms)))

    @property
    def federation(self) -> Federation:
        """The play of the current episode; the flat ids make one for `reset(options=...)` alone."""
        if self._federation is None:
            raise ResetNeeded(
                "There is no federation: call env.reset() first, of flat ids with options"
            )
        return self._federation

    @property
    def truth(self) -> Instance:
        """The instance of the current episode, for judges and pictures; not for learners."""
        if self._law is None:
            raise ResetNeeded("There is no play yet: call env.reset() first")
        rewards, means, clusters, *_ = self._law
        return self._instance or Instance(means, clusters, rewards)

    @property
    def seen(self) -> tuple[Ints, Floats]:
        """(N, K) pulls and averages that the centre has seen, not copied; do not write to them."""
        return self._pulls, self._means

    def reset(self, *, seed: int | None = None, options: Values | None = None) -> ResetResult:
        super().reset(seed=seed)
        instance_seed, play_seed = episode_seeds(self.np_random)
        known: Values = {
            "instance_seed": instance_seed,
            "play_seed": play_seed,
            "local_pulls": False,
            "source": None,
        }
        chosen = known | (options or {})
        if unknown := sorted(chosen.keys() - known.keys()):
            raise UserError(f"unknown reset options {unknown}; known: {', '.join(known)}")
        instance = self._draw_truth(chosen["instance_seed"])
        self._federation = self.federation_on(instance, chosen["play_seed"], chosen["source"])
        self._local = bool(chosen["local_pulls"])
        return self._begin(self.told_values(instance))

    def _draw_truth(self, seed: Seed) -> Instance:
        """Draw the instance of the episode."""
        self._instance = drawn = self.draw_instance(seed)
        self.check_size(drawn)
        good = drawn.good_arms(self.epsilon)
        self._law = Law(drawn.rewards, drawn.means, drawn.clusters, drawn.best_arms, good)
        return drawn

    def _begin(self, told: Values) -> ResetResult:
        """An episode without pulls: its first observation, and what the learner is `told`."""
        self._scale = told["sigma"]
        self._pulls = np.zeros((self.n_agents, self.n_arms), dtype=int)
        self._means = np.zeros(self._pulls.shape)
        self._per_agent = np.zeros(self.n_agents, dtype=int)
        self._unpulled = set(range(self.n_agents))
        self._count = 0
        self._orders = 0
        self._answer = None
        self._outcome: Values | None = None
        return self._observe(), told

    def step(self, action: Any) -> StepResult:
        federation = self.federation
        if self._answer is not None or federation.judgement is not None:
            raise ResetNeeded(ENDED)
        kind, chosen = read_action(action, self.n_agents, self.n_arms)
        if kind == STOP:
            return self.end_episode(np.array(chosen), stopped=True)
        agent, arm = chosen
        if self._local:
            # No limit here: a policy may pull exactly max_pulls times and then stop.
            sample = federation.single(agent, arm)
            return self._observe(), -self.pull_cost, False, False, {"sample": sample}
        return self._carry_out(agent, arm, 1)

    def _carry_out(self, agent: int, arm: int, times: int) -> StepResult:
        """An order of pulls; at the limit, or where it would exceed the limit, the last step."""
        reward = sample = 0.0
        if self._count + times <= self.limit:
            federation = self._federation
            play: Any = federation or self._free
            if times == 1:
                sample = play.single(agent, arm)
            else:
                sample = play.draw(np.array([agent]), np.array([arm]), times).item()
            # Plain numbers instead of NumPy's: 0.4 µs instead of 0.7 in a step of 10.
            count = self._pulls.item(agent, arm) + times
            mean = self._means.item(agent, arm)
            self._pulls[agent, arm] = count
            self._means[agent, arm] = mean + (sample - mean) * times / count
            self._per_agent[agent] += times
            self._unpulled.discard(agent)
            self._count += times
            self._orders += 1
            if federation is not None:
                federation.rounds += 1
                totals = federation.ledger.totals
                phase = federation.current_phase
                # `ledger.record` takes an array of agents: 2.2 µs instead of 1.1 in a step of 10.
                totals[phase, "down", "order"].add(1, self.order_bits, 0)
                totals[phase, "up", "real"].add(1, 0, 1)
            reward = -self.pull_cost * times
            if self._count < self.limit:
                return self._observe(), reward, False, False, self.open_info(sample)
        arms = self.best_seen() if self.truncation == "answer" else self._no_arms
        return self.end_episode(arms, reward, sample)

    def best_seen(self) -> Ints:
        """(N,) each agent's empirical best arm; ties are decided by a fair draw."""
        rng = self.np_random if self._federation is None else self._federation.rng
        return empirical_best(self._pulls, self._means, rng)

    def end_episode(
        self, arms: Ints, reward: float = 0.0, sample: float = 0.0, *, stopped: bool = False
    ) -> StepResult:
        """The last step, with `arms` (N,) recommended, −1 for none.

        Unless it is a truncation, agents without a right arm are charged.
        """
        truncated = self.truncation == "free" and not stopped
        clusters = self._law.clusters
        right = self._law.good[clusters, arms] & (arms >= 0)
        wrong = self.n_agents - int(np.count_nonzero(right))
        info = self.open_info(sample)
        info |= {
            "stopped": stopped,
            "correct": wrong == 0,
            "agent_correct": right,
            "wrong_agents": 0 if truncated else wrong,
            "best_arms": self._law.best[clusters],
            **self._spent(),
        }
        if self._federation is not None and arms[0] >= 0:
            self._federation.stop(arms)
        self._answer = arms
        self._outcome = info
        reward -= self.error_penalty * info["wrong_agents"]
        return self._observe(), reward, not truncated, truncated, info

    def _spent(self) -> Values:
        """Pulls and communication so far where a federation counts them, with local ones."""
        federation = self._federation
        if federation is None:
            return {}
        return {
            "pulls": federation.pulls,
            "pulls_per_agent": federation.pulls_per_agent,
            "communication": federation.ledger.summary(),
        }

    def _observe(self) -> Any:
        """The observation; in mode "human" also a picture of it."""
        if self.render_mode == "human":
            self.render()
        return self._obs()

    def _obs(self) -> Any:
        """What the learner has seen, as a copy."""
        return {"pulls": self._pulls.copy(), "means": self._means.copy()}

    def open_info(self, sample: float = 0.0) -> Values:
        """`info` before the end: the keys of the last one, with nothing of the truth."""
        return {
            "sample": sample,
            "stopped": False,
            "correct": False,
            "agent_correct": self._not_judged.copy(),
            "wrong_agents": 0,
            "pulls": self._count,
            "pulls_per_agent": self._per_agent.copy(),
            "communication": self.bill(self._orders),
            "best_arms": self._no_arms.copy(),
        }

    def bill(self, orders: Any) -> Values:
        """The communication of `orders` and their answers: a number, or an array of numbers."""
        bits = orders * self.order_bits
        nothing = 0 * orders
        return {
            "cost": self.c_b * bits + self.c_r * orders,
            "bits_up": nothing,
            "bits_down": bits,
            "reals_up": orders,
            "reals_down": nothing,
        }

    def render(self) -> Any:
        """A frame (H, W, 3) uint8 in mode "rgb_array"; "human" shows it in a window."""
        if self.render_mode is None:
            gym.logger.warn("env.render() needs a render_mode, e.g. render_mode='rgb_array'")
            return None
        from clustered_bandit_gym.envs.rendering import Window, draw_frame

        problem = self.problem_of(self.truth)
        info = (self._outcome or self.open_info()) | self._spent()
        with needs_extra("plots"):
            frame = draw_frame(problem, *self.seen, info, self._answer)
            if self.render_mode == "rgb_array":
                return frame
            self._window = self._window or Window()
        self._window.show(frame, 1 / self.metadata["render_fps"])
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> Values:
        # A window cannot travel, and a federation travels as its snapshot.
        play = None if self._federation is None else self._federation.snapshot()
        return {**self.__dict__, "_window": None, "_federation": play}

    def __setstate__(self, state: Values) -> None:
        play = state["_federation"]
        self.__dict__.update(state, _federation=None if play is None else Federation.restore(play))


def tables(shape: Shape) -> dict[str, Space]:
    """The spaces of counts and averages of this shape."""
    pulls = spaces.Box(0, MAX_PULLS, shape, np.int64)
    return {"pulls": pulls, "means": spaces.Box(-np.inf, np.inf, shape, np.float64)}
