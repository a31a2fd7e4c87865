"""Training with Stable-Baselines3 on the native vector environment. Needs `pip install clustered-bandit-gym[rl]`.

Reads from top to bottom: the settings, the loop, the algorithms.

Training goes in segments. Each starts fresh episodes with random streams of its own, and ends with an evaluation on
held-out instances and a checkpoint. So everything a segment depends on is in the checkpoint (weights, optimizer, for
DQN the replay buffer), and a run that was killed and resumed gives the same model as one that was not.

On trust: a Stable-Baselines3 model file holds pickles, which can run any code when SB3 loads them. Nothing here
unpickles: tensors are read with `weights_only=True`, all else is JSON; and only files that the user names are read.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from tqdm import tqdm

from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.evaluation import (
    TEST_SEED,
    Comparison,
    compare_with_uniform,
)
from clustered_bandit_gym.policies.learned.features import Features
from clustered_bandit_gym.policies.learned.files import Progress, TrainingFiles, replace_file
from clustered_bandit_gym.policies.learned.many import play_many
from clustered_bandit_gym.policies.learned.player import LearnedPolicy, require_rl

ALGOS = ("maskable-ppo", "ppo", "a2c", "dqn")

_PPO_COUNTS = ("width", "n_steps", "batch_size", "n_epochs")

#: Root seed of the instances on which the best model is chosen; the final test uses others.
VALIDATION_SEED = 1_000_003


@dataclass(frozen=True)
class TrainSettings:
    """Everything a training run depends on."""

    env: str = field(default="ClusteredBAI-Tiny-v0", metadata={"help": "environment to train on"})
    env_kwargs: dict[str, Any] = field(default_factory=dict, metadata={"help": "its settings"})
    algo: str = field(default="maskable-ppo", metadata={"help": "maskable-ppo, ppo, a2c or dqn"})
    steps: int = field(default=800_000, metadata={"help": "environment steps in all"})
    n_envs: int = field(default=128, metadata={"help": "sub-environments stepped at once"})
    seed: int = field(default=0, metadata={"help": "seed of weights and training episodes"})
    evaluations: int = field(
        default=5, metadata={"help": "segments, each ends with an evaluation and a checkpoint"}
    )
    validation_trials: int = field(
        default=4000, metadata={"help": "held-out instances of each evaluation"}
    )
    threads: int = field(default=1, metadata={"help": "threads of torch"})
    # A wrong agent costs as much as 800 pulls: on Tiny that keeps the error rate well below δ = 0.05.
    pull_cost: float = field(default=0.01, metadata={"help": "reward lost with a pull"})
    error_penalty: float = field(
        default=8.0, metadata={"help": "reward lost with each wrong agent"}
    )
    max_pulls: int = field(
        default=400, metadata={"help": "episodes are cut off here; the trained player stops"}
    )
    width: int = field(default=32, metadata={"help": "units in each layer of the network"})
    learning_rate: float | None = field(
        default=None,
        metadata={
            "help": "at the start, falls linearly to 5% of it; None: 0.006 for PPO, else 0.0003"
        },
    )
    entropy: float = field(
        default=0.002, metadata={"help": "bonus at the start, falls linearly to 0 (not for dqn)"}
    )
    gamma: float = field(default=1.0, metadata={"help": "discount: 1 counts all pulls alike"})
    gae_lambda: float = field(
        default=0.95, metadata={"help": "generalised advantage estimation (not for dqn)"}
    )
    n_steps: int = field(
        default=64, metadata={"help": "steps of each sub-environment between updates (PPO)"}
    )
    batch_size: int = field(default=1024, metadata={"help": "samples in a minibatch (PPO)"})
    n_epochs: int = field(
        default=3, metadata={"help": "passes over each batch of experience (PPO)"}
    )

    def __post_init__(self) -> None:
        if self.algo not in ALGOS:
            raise UserError(f"algo must be one of {', '.join(ALGOS)}, got {self.algo!r}")
        for name in (
            "steps",
            "n_envs",
            "evaluations",
            "validation_trials",
            "threads",
            "max_pulls",
            *_PPO_COUNTS,
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or value != int(value) or value < 1:
                raise UserError(f"{name} must be a whole number >= 1, got {value!r}")
        if isinstance(self.seed, bool) or self.seed != int(self.seed) or self.seed < 0:
            raise UserError(f"seed must be a whole number >= 0, got {self.seed!r}")
        reserved = {"pull_cost", "error_penalty", "max_pulls"} & set(self.env_kwargs)
        if reserved:
            raise UserError(
                f"{', '.join(sorted(reserved))}: settings of the training, not of the environment"
            )

    @property
    def first_learning_rate(self) -> float:
        """At the start of the training. Actor and critic of PPO start near a good rule and take large steps well."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 6e-3 if self.algo in ("maskable-ppo", "ppo") else 3e-4

    @property
    def game(self) -> dict[str, Any]:
        """Settings of the environment in training."""
        own = {
            "pull_cost": self.pull_cost,
            "error_penalty": self.error_penalty,
            "max_pulls": self.max_pulls,
        }
        return {**self.env_kwargs, **own}


def shortened(settings: TrainSettings) -> TrainSettings:
    """The same run in a few seconds, to see that everything works: what CLUSTERED_BANDIT_QUICK=1 asks for."""
    return replace(
        settings, steps=min(settings.steps, 4000), n_envs=16, evaluations=2, validation_trials=20
    )


def train(
    settings: TrainSettings,
    out: str | os.PathLike[str] = "model.zip",
    *,
    overwrite: bool = False,
    progress: bool = True,
    tensorboard: str | os.PathLike[str] | None = None,
) -> Progress:
    """Train and write the best model to `out`, its settings and history to the same name with `.json`.

    A run that was killed resumes after its last segment, when called with the same settings and `out`.

    Args:
        overwrite: start anew where `out` holds a model or a run with other settings, instead of raising `ValueError`.
        progress: show a progress bar, and a line for each evaluation.
        tensorboard: folder for TensorBoard's files: losses, and pulls, wrong agents and cost of an episode. Needs
            `pip install tensorboard`.
    """
    require_rl()
    import torch

    from clustered_bandit_gym.policies.learned.sb3 import LogOutcomes

    files = TrainingFiles(Path(out))
    state = Progress() if overwrite else files.resume(settings)
    torch.set_num_threads(settings.threads)
    env = make_vec_env(settings)
    model = make_model(settings, env)
    if tensorboard is not None:
        model.set_logger(_tensorboard(Path(tensorboard) / Path(out).stem))
    if overwrite:
        files.clear()  # not before it is clear that the new run can start
    if state.segments:
        files.restore(model, state)
    bar = tqdm(
        total=settings.steps,
        initial=min(state.steps, settings.steps),
        unit="step",
        disable=not progress,
    )
    say = bar.write if progress else lambda text: None
    if state.segments:
        say(f"goes on after segment {state.segments} of {settings.evaluations}")
    with bar:
        while state.segments < settings.evaluations:
            start = time.process_time()
            _start_segment(model, env, settings, state)
            goal = settings.steps * (state.segments + 1) // settings.evaluations
            callbacks = [_mover(bar), LogOutcomes()]
            model.learn(max(1, goal - state.steps), callback=callbacks, reset_num_timesteps=False)
            state.segments, state.steps = state.segments + 1, int(model.num_timesteps)
            files.save_model(model, settings)
            row = _validate(files.candidate, settings)
            state.history.append({"steps": state.steps, **row})
            if state.best < 0 or row["return"] > state.history[state.best]["return"]:
                state.best = len(state.history) - 1
                files.keep()
            state.processor_seconds += time.process_time() - start
            files.checkpoint(model, settings, state)
            say(
                f"{state.steps:>10,} steps: return {row['return']:+.4f}, pulls {row['pulls']:.1f}, "
                f"error rate {row['error_rate']:.4f} on {settings.validation_trials:,} held-out instances"
                + (" (best so far)" if state.best == len(state.history) - 1 else "")
            )
    env.close()
    files.finish(settings, state)
    return state


def evaluate(
    model: str | os.PathLike[str], trials: int = 2000, seed: int = TEST_SEED
) -> Comparison:
    """Compare a trained model with uniform sampling, and enter the result in the model's `.json`."""
    comparison = compare_with_uniform(str(model), trials=trials, seed=seed)
    about = Path(model).with_suffix(".json")
    if about.is_file():
        content = json.loads(about.read_text())
        replace_file(
            about, json.dumps({**content, "evaluation": comparison.to_dict()}, indent=2).encode()
        )
    return comparison


def make_vec_env(settings: TrainSettings) -> Any:
    """The native vector environment of `settings.env` with features, as an SB3 `VecEnv`."""
    from gymnasium.vector import AutoresetMode

    from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
    from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv

    game = gym.make(settings.env, disable_env_checker=True, **settings.game).unwrapped
    if not isinstance(game, ClusteredBAIEnv):
        raise UserError(
            f"{settings.env} is not an environment of this package; `clustered-bai list` shows them"
        )
    told = [game.problem_of(game.draw_instance(seed)) for seed in range(8)]
    if len({(one.n_clusters, one.eta, one.sigma) for one in told}) > 1:
        raise UserError(
            f"{settings.env} tells another eta, sigma or number of clusters with every instance, but training needs "
            'fixed ones: set them, e.g. env_kwargs={"told": {"eta": 0.1}}, or None for not told'
        )
    features = Features(
        told[0].n_agents, told[0].n_arms, told[0].n_clusters, told[0].eta, told[0].sigma
    )
    registered = dict(gym.spec(settings.env).kwargs)
    envs = ClusteredBAIVectorEnv(
        settings.n_envs, autoreset_mode=AutoresetMode.SAME_STEP, **{**registered, **settings.game}
    )
    return SB3VecEnv(envs, features)


def make_model(settings: TrainSettings, env: Any) -> Any:
    """An untrained model of `settings.algo`."""
    import stable_baselines3 as sb3
    from sb3_contrib import MaskablePPO

    from clustered_bandit_gym.policies.learned import network as networks

    common: dict[str, Any] = {
        "env": env,
        "seed": settings.seed,
        "device": "cpu",
        "gamma": settings.gamma,
        "learning_rate": settings.first_learning_rate,
        "policy_kwargs": {"net_arch": [settings.width]},
    }
    if settings.algo == "dqn":
        return sb3.DQN(
            networks.CellQPolicy,
            buffer_size=100_000,
            learning_starts=min(10_000, settings.steps // 10),
            batch_size=256,
            train_freq=4,
            gradient_steps=16,
            # Counted in steps of the vector environment.
            target_update_interval=max(1, 10_000 // settings.n_envs) * settings.n_envs,
            **common,
        )
    common |= {"ent_coef": settings.entropy, "gae_lambda": settings.gae_lambda}
    if settings.algo == "a2c":
        return sb3.A2C(networks.CellPolicy, n_steps=16, normalize_advantage=True, **common)
    common |= {"n_steps": settings.n_steps, "n_epochs": settings.n_epochs}
    common["batch_size"] = min(settings.batch_size, settings.n_steps * settings.n_envs)
    if settings.algo == "ppo":
        return sb3.PPO(networks.CellPolicy, **common)
    return MaskablePPO(networks.MaskableCellPolicy, **common)


def _start_segment(model: Any, env: Any, settings: TrainSettings, state: Progress) -> None:
    """Streams of the segment's own, fresh episodes, and the segment's place in the schedules."""
    from stable_baselines3.common.utils import set_random_seed

    words = np.random.SeedSequence(settings.seed, spawn_key=(state.segments,)).generate_state(
        2, np.uint32
    )
    set_random_seed(int(words[0]))  # of torch, numpy and random: SB3 draws from the global ones
    model.action_space.seed(int(words[0]))
    env.seed(int(words[1]) << 32)
    model._last_obs = None
    left = 1 - state.segments / settings.evaluations
    model.learning_rate = settings.first_learning_rate * max(left, 0.05)
    model._setup_lr_schedule()
    if settings.algo == "dqn":
        rate = max(0.02, 1 - 2.5 * (1 - left))
        model.exploration_rate = rate
        model.exploration_schedule = lambda _: rate
    else:
        model.ent_coef = settings.entropy * left


def _tensorboard(folder: Path) -> Any:
    """A logger of Stable-Baselines3 that writes there, and nowhere else."""
    from importlib.util import find_spec

    from stable_baselines3.common.logger import configure

    if find_spec("tensorboard") is None:
        raise UserError("logging to TensorBoard needs it: pip install tensorboard")
    return configure(str(folder), ["tensorboard"])


def _mover(bar: Any) -> Any:
    """A callback that moves the progress bar."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Mover(BaseCallback):
        def _on_step(self) -> bool:
            bar.update(self.training_env.num_envs)
            return True

    return Mover()


def _validate(path: Path, settings: TrainSettings) -> dict[str, float]:
    # One pull more than the player ever makes: it answers before the environment cuts it off.
    game = {**settings.game, "max_pulls": settings.max_pulls + 1}
    played = play_many(
        LearnedPolicy(str(path)), settings.env, settings.validation_trials, VALIDATION_SEED, **game
    )
    return {
        "return": float(played.returns.mean()),
        "pulls": float(played.pulls.mean()),
        "error_rate": float(played.wrong.mean()),
    }
