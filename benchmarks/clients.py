"""Learning libraries on the flat and Box ids: `python -m benchmarks clients` prints passed and failed per client.

Install the libraries in an environment of their own: torch==2.13.0 first, then stable_baselines3 sb3_contrib rl_zoo3
pettingzoo[testing] supersuit torchrl tianshou ray[rllib] minari[all] tyro tensorboard pytest. CleanRL's scripts and
SB3's tests are not in packages: clone both repositories into one folder and name it with `--sources`. A client that is
missing is skipped.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs_registry import CATALOGUE, flat_id

ROOT = Path(__file__).parents[1]
BOX = "ClusteredBAI-Tiny-Box-v0"
PLAIN_IDS = [name for name, entry in CATALOGUE.items() if not entry.needs_data]
FLAT_IDS = sorted({flat_id(name, kind) for name in PLAIN_IDS for kind in ("Discrete", "Box")})
#: Games whose checks take seconds; those of the others take minutes.
SMALL = ("ClusteredBAI-v0", "ClusteredBAI-Tiny-v0", "ClusteredBAI-NearTie-v0")
SMALL_IDS = [flat_id(name, kind) for name in SMALL for kind in ("Discrete", "Box")]
TIMEOUT = 600  # seconds for one check

Check = tuple[str, Callable[[], Any]]


class Missing(Exception):
    """Something that a client needs is not here."""


def run(command: list[str], folder: str | Path) -> None:
    """Run a Python program in `folder`; raises with its last lines if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        output = done.stdout + done.stderr
        raise RuntimeError(" / ".join(output.strip().splitlines()[-3:]))


def gymnasium(sources: Path | None) -> Iterator[Check]:
    from gymnasium.utils.env_checker import check_env

    def vector(name: str) -> None:
        env = gym.make(name)
        for mode in ("sync", "vector_entry_point"):
            envs = gym.make_vec(env.spec, num_envs=2, vectorization_mode=mode)
            envs.reset(seed=0)
            envs.step(envs.action_space.sample())
            envs.close()

    for name in [*SMALL, *SMALL_IDS]:
        yield name, lambda name=name: check_env(gym.make(name).unwrapped, skip_render_check=True)
    for name in SMALL_IDS:
        yield f"make_vec of the spec of {name}", lambda name=name: vector(name)


def stable_baselines3(sources: Path | None) -> Iterator[Check]:
    from stable_baselines3 import A2C, DQN, PPO
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.evaluation import evaluate_policy

    def readme() -> None:
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        [snippet] = re.findall(r"```python\n(from stable_baselines3 .*?)```", text, re.S)
        names: dict[str, Any] = {"gym": gym, "cbg": cbg}
        exec(snippet, names)
        evaluate_policy(names["model"], names["model"].get_env())

    def learn(kind: Any) -> None:
        model = kind("MlpPolicy", gym.make(BOX), device="cpu").learn(300)
        evaluate_policy(model, model.get_env(), n_eval_episodes=2)

    for name in SMALL_IDS:
        yield name, lambda name=name: check_env(gym.make(name))
    yield "README's snippet and evaluate_policy", readme
    for kind in (PPO, A2C, DQN):
        yield f"{kind.__name__} and evaluate_policy", lambda kind=kind: learn(kind)


#: Runs pytest with the Box id in the place of CartPole.
INSTEAD_OF_CARTPOLE = f"""
import sys
import gymnasium as gym
import pytest
import clustered_bandit_gym
spec = gym.spec("{BOX}")
gym.register("CartPole-v1", spec.entry_point, kwargs=spec.kwargs)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def sb3_tests(sources: Path | None) -> Iterator[Check]:
    """Tests of Stable-Baselines3 that use CartPole, with the Box id in its place.

    `test_monitor_error_cases` fails: it resets with an unknown option, which CartPole ignores and
    this package refuses.
    """
    folder = _clone(sources, "stable-baselines3")
    # The rest of these files uses other environments.
    chosen = {
        "run": "not Pendulum and not td3 and not sac and not ddpg",
        "predict": "not Pendulum",
        "callbacks": "",
        "train_eval_mode": "",
        "vec_monitor": "",
        "monitor": "",
        "envs": "",
    }
    for name, which in chosen.items():
        command = ["-c", INSTEAD_OF_CARTPOLE, f"tests/test_{name}.py", "-k", which]
        yield f"test_{name}.py", lambda command=command: run(command, folder)


def pettingzoo(sources: Path | None) -> Iterator[Check]:
    from pettingzoo.test import parallel_api_test, parallel_seed_test, render_test
    from pettingzoo.utils.conversions import parallel_to_aec

    def make(communication: str, **settings: Any) -> Any:
        return cbg.parallel_env(communication, generator="tiny", max_cycles=30, **settings)

    def copies(communication: str) -> None:
        env = make(communication)
        env.reset(seed=0)
        action = dict.fromkeys(env.agents, 0)
        want = repr(copy.deepcopy(env).step(action))
        if repr(pickle.loads(pickle.dumps(env)).step(action)) != want:
            raise AssertionError("a pickled environment plays another game than its copy")

    def render(communication: str) -> None:
        render_test(
            lambda render_mode: parallel_to_aec(make(communication, render_mode=render_mode))
        )

    for one in ("none", "broadcast"):
        yield f"api, {one}", lambda one=one: parallel_api_test(make(one))
        yield f"seed, {one}", lambda one=one: parallel_seed_test(lambda: make(one))
        yield f"copy and pickle, {one}", lambda one=one: copies(one)
        yield f"render, {one}", lambda one=one: render(one)


def torchrl(sources: Path | None) -> Iterator[Check]:
    from torchrl.envs import GymEnv
    from torchrl.envs.utils import check_env_specs

    for name in FLAT_IDS:
        yield name, lambda name=name: check_env_specs(GymEnv(name))


def tianshou(sources: Path | None) -> Iterator[Check]:
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv, SubprocVectorEnv
    from tianshou.utils.net.common import Net

    def collect(kind: Any, name: str) -> None:
        envs = kind([lambda: gym.make(name) for _ in range(2)])
        envs.reset()
        for _ in range(3):
            envs.step([0, 12])
            envs.reset([1])
        envs.close()

    def learn() -> None:
        envs = DummyVectorEnv([lambda: gym.make(BOX) for _ in range(2)])
        env = gym.make(BOX)
        net = Net(state_shape=env.observation_space.shape, action_shape=env.action_space.n)
        policy = DiscreteQLearningPolicy(model=net, action_space=env.action_space)
        algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3))
        buffer = VectorReplayBuffer(2000, 2)
        collector = Collector(algorithm, envs, buffer)
        collector.reset()
        collector.collect(n_step=400)
        with _training(policy):
            algorithm.update(buffer=buffer, sample_size=32)

    for kind in (DummyVectorEnv, SubprocVectorEnv):
        for name in (BOX, "ClusteredBAI-Tiny-Discrete-v0"):
            yield f"{kind.__name__}, {name}", lambda kind=kind, name=name: collect(kind, name)
    yield "DQN", learn


def _training(policy: Any) -> Any:
    from tianshou.utils.torch_utils import policy_within_training_step

    policy.train()
    return policy_within_training_step(policy)


def ray(sources: Path | None) -> Iterator[Check]:
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.ppo import PPOConfig

    def learn(config: Any) -> None:
        name = f"clustered_bandit_gym:{BOX}"
        config = config.environment(name).env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        algorithm = config.build_algo()
        algorithm.train()
        algorithm.stop()

    ppo = PPOConfig().training(train_batch_size=500, minibatch_size=100, num_epochs=1)
    yield "PPO", lambda: learn(ppo)
    yield "DQN", lambda: learn(DQNConfig().training(train_batch_size=32))


def cleanrl(sources: Path | None) -> Iterator[Check]:
    """CleanRL's scripts as they are; the id says which package to import."""
    importlib.import_module("tyro")
    folder = _clone(sources, "cleanrl")

    def train(script: str, steps: int, *more: str) -> None:
        options = [
            "--env-id",
            f"clustered_bandit_gym:{BOX}",
            "--total-timesteps",
            str(steps),
            *more,
        ]
        with tempfile.TemporaryDirectory() as place:
            path = os.pathsep.join([str(ROOT), str(folder)])
            code = f"import runpy, sys; sys.path[:0] = {path.split(os.pathsep)!r}; "
            code += f"sys.argv = {[script, *options]!r}; "
            code += f"runpy.run_path({str(folder / 'cleanrl' / script)!r}, run_name='__main__')"
            run(["-c", code], place)

    yield "ppo.py", lambda: train("ppo.py", 4096)
    yield "dqn.py", lambda: train("dqn.py", 12_000)
    yield "c51.py", lambda: train("c51.py", 12_000, "--v-min", "-10", "--v-max", "0")


def rl_zoo3(sources: Path | None) -> Iterator[Check]:
    importlib.import_module("rl_zoo3")
    settings = ROOT / "examples" / "rl_zoo3.yml"

    def train() -> None:
        with tempfile.TemporaryDirectory() as place:
            options = ["--algo", "ppo", "--env", BOX, "--gym-packages", "clustered_bandit_gym"]
            options += ["-conf", str(settings), "-n", "12000", "--eval-freq", "5000", "-f", place]
            run(["-m", "rl_zoo3.train", *options, "--device", "cpu"], place)

    yield "train with examples/rl_zoo3.yml", train


def supersuit(sources: Path | None) -> Iterator[Check]:
    import supersuit as ss

    def single() -> None:
        env = ss.frame_stack_v1(gym.make(BOX), 3)
        env.reset(seed=0)
        env.step(0)

    def parallel(communication: str) -> None:
        env = cbg.parallel_env(communication, generator="tiny", max_cycles=30, observation="box")
        envs = ss.pettingzoo_env_to_vec_env_v1(ss.black_death_v3(env))
        envs = ss.concat_vec_envs_v1(envs, 2, num_cpus=0, base_class="gymnasium")
        envs.reset(seed=0)
        for _ in range(40):
            envs.step(np.array([envs.action_space.sample() for _ in range(envs.num_envs)]))

    yield "frame_stack", single
    for one in ("none", "broadcast"):
        yield f"black_death and concat_vec_envs, {one}", lambda one=one: parallel(one)


def minari(sources: Path | None) -> Iterator[Check]:
    from minari import DataCollector, StepDataCallback

    class Outcome(StepDataCallback):
        """Minari asks for the same keys in the infos of reset and step."""

        def __call__(self, env: Any, info: dict[str, Any], **data: Any) -> Any:
            kept = {"pulls": info.get("pulls", 0), "correct": info.get("correct", False)}
            return super().__call__(env, info=kept, **data)

    def collect(name: str) -> None:
        env = DataCollector(gym.make(name), Outcome, record_infos=True)
        for seed in range(2):
            env.reset(seed=seed)
            for action in (0, 3, 6, 9, 12):
                env.step(action)
        with tempfile.TemporaryDirectory() as place:
            os.environ["MINARI_DATASETS_PATH"] = place
            dataset = env.create_dataset("test/clustered-bai-v0")
            if len(dataset[0].infos["pulls"]) != 6:
                raise AssertionError("infos of an episode with five steps are not complete")
        env.close()

    for name in (BOX, "ClusteredBAI-Tiny-Discrete-v0"):
        yield f"DataCollector with infos, {name}", lambda name=name: collect(name)


CLIENTS: dict[str, Callable[[Path | None], Iterator[Check]]] = {
    "gymnasium": gymnasium,
    "stable_baselines3": stable_baselines3,
    "sb3_tests": sb3_tests,
    "pettingzoo": pettingzoo,
    "torchrl": torchrl,
    "tianshou": tianshou,
    "ray": ray,
    "cleanrl": cleanrl,
    "rl_zoo3": rl_zoo3,
    "supersuit": supersuit,
    "minari": minari,
}


def _clone(sources: Path | None, name: str) -> Path:
    if sources is None or not (sources / name).is_dir():
        raise Missing(f"needs a clone of {name} in the folder named with --sources")
    return (sources / name).resolve()


def _out_of_time(*_: Any) -> None:
    raise TimeoutError(f"not finished after {TIMEOUT} s")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks clients", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)}")
    parser.add_argument("--sources", type=Path, help="folder with cleanrl and stable-baselines3")
    given = parser.parse_args(words)
    if unknown := sorted(set(given.clients) - set(CLIENTS)):
        parser.error(f"no client {', '.join(unknown)}; there are: {', '.join(CLIENTS)}")
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _out_of_time)
    failures = 0
    for name in given.clients or CLIENTS:
        passed, failed = 0, []
        try:
            for what, check in CLIENTS[name](given.sources):
                signal.alarm(TIMEOUT)
                try:
                    check()
                    passed += 1
                except Exception:
                    failed.append(f"{what}: {traceback.format_exc().strip().splitlines()[-1]}")
                finally:
                    signal.alarm(0)
        except (ImportError, Missing) as error:
            print(f"{name:<20} skipped: {error}", flush=True)
            continue
        failures += len(failed)
        print(f"{name:<20} passed {passed}, failed {len(failed)}", flush=True)
        for line in failed:
            print(f"    {line[:400]}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
