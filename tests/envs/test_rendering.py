"""Pictures: what they show and what they must not."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs import rendering
from clustered_bandit_gym.envs.rendering import draw_frame, marks
from clustered_bandit_gym.game.problem import Problem

INSTANCE = cbg.Instance([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3]], [0, 1, 1, 0])
TINY = "ClusteredBAI-Tiny-Discrete-v0"
GREEN, RED, AMBER = (46, 158, 91), (211, 57, 76), (242, 163, 15)


def pixels(frame: np.ndarray, colour: tuple[int, int, int], part: bool = False) -> int:
    """How many pixels of the map (not of the key below it), or of a part of it, have exactly this colour."""
    return int(((frame if part else frame[100:570, 60:860]) == colour).all(axis=2).sum())


def spent(pulls: np.ndarray, cost: float = 0.0) -> dict[str, Any]:
    """What `info` says of these pulls."""
    return {"pulls_per_agent": pulls.sum(axis=1), "communication": {"cost": cost}}


def played(mode: str, **settings: Any) -> gym.Env[Any, Any]:
    env = gym.make("ClusteredBAI-v0", instance=INSTANCE, render_mode=mode, **settings)
    env.reset(seed=0)
    for agent in range(4):
        for arm in range(3):
            env.step((cbg.PULL, (agent, arm)))
    return env


def test_frame_shows_leaders_and_then_the_verdict() -> None:
    env = played("rgb_array")
    before = env.render()
    assert pixels(before, AMBER) > 500
    assert pixels(before, GREEN) == pixels(before, RED) == 0
    assert np.array_equal(before, env.render())
    env.step((cbg.STOP, [0, 1, 1, 1]))
    after = env.render()
    assert after.shape == before.shape == (640, 1120, 3)
    assert pixels(after, AMBER) == 0
    assert pixels(after, GREEN) > pixels(after, RED) > 0
    env.reset(seed=0)
    env.step((cbg.STOP, [0, 1, 1, 0]))
    right = env.render()
    assert pixels(right, GREEN) > 0
    assert pixels(right, RED) == 0


def test_the_wrong_answer_and_every_best_arm_are_marked() -> None:
    env = played("rgb_array")
    env.step((cbg.STOP, [0, 1, 1, 1]))
    frame = env.render()

    def marked(colour: tuple[int, int, int]) -> list[int]:
        """The column of each agent's cell with this colour; −1 for none."""
        columns = []
        for row in range(4):
            cells = frame[132 + 110 * row : 222 + 110 * row]
            parts = [cells[:, left : left + 250] for left in (67, 325, 590)]
            found = [i for i, part in enumerate(parts) if pixels(part, colour, part=True)]
            columns.append(found[0] if found else -1)
        return columns

    assert marked(RED) == [-1, -1, -1, 1]
    assert marked(GREEN) == [0, 1, 1, 0]


def test_never_pulled_is_not_drawn_as_low() -> None:
    """Agent 0 has one cell that was never pulled and one with the lowest estimate of all."""
    problem = Problem(1, 3, None, 0.1)
    pulls, means = np.array([[1, 1, 0]]), np.array([[0.9, 0.1, 0.0]])
    frame = draw_frame(problem, pulls, means, spent(pulls))
    low, never = frame[123:560, 328:587], frame[123:560, 587:846]
    assert (low == (203, 226, 195)).all(axis=2).sum() > 1000
    assert (never == (203, 226, 195)).all(axis=2).sum() == 0


def test_truth_is_not_drawn_before_the_end() -> None:
    """Two instances with the same numbers seen and other best arms give the same picture."""
    frames = []
    for means in ([[0.0, 1.0]], [[1.0, 0.0]]):
        env = cbg.ClusteredBAIEnv(cbg.Instance(means, [0, 0]), render_mode="rgb_array")
        env.reset(seed=0)
        frames.append(env.render())
    assert np.array_equal(*frames)


def test_the_next_episode_starts_clean() -> None:
    env = played("rgb_array")
    first = env.unwrapped
    env.step((cbg.STOP, [0, 0, 0, 0]))
    env.render()
    env.reset(seed=0)
    clean = cbg.ClusteredBAIEnv(INSTANCE, render_mode="rgb_array")
    clean.reset(seed=0)
    assert np.array_equal(first.render(), clean.render())


def test_marks() -> None:
    problem = Problem(2, 3, None, 0.1)
    pulls, means = np.array([[4, 1, 0], [0, 0, 0]]), np.array([[-1.0, -2.0, 0.0], [0.0, 0.0, 0.0]])
    outcome = {
        "wrong_agents": 1,
        "best_arms": np.array([0, 0]),
        "agent_correct": np.array([False, True]),
    }
    info = spent(pulls) | outcome
    [(_, leaders)] = marks(pulls, means, info, None)
    assert leaders.tolist() == [0, -1]
    answered, nothing = np.array([1, 0]), np.array([-1, -1])
    assert [arms.tolist() for _, arms in marks(pulls, means, info, answered)] == [[0, 0], [1, -1]]
    frames = [draw_frame(problem, pulls, means, info, arms) for arms in (None, answered, nothing)]
    assert len({frame.tobytes() for frame in frames}) == 3


@pytest.mark.parametrize("sizes", [(1, 1), (49, 3), (600, 400)])
def test_any_size(sizes: tuple[int, int]) -> None:
    n, k = sizes
    pulls = np.random.default_rng(0).integers(3, size=sizes)
    means = np.where(pulls > 0, 0.5, 0.0)
    frame = draw_frame(Problem(n, k, 1, 0.1), pulls, means, spent(pulls, 1e9))
    assert frame.shape == (640, 1120, 3)
    assert len(np.unique(frame[::4, ::4].reshape(-1, 3), axis=0)) > 5


def test_record_video(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = gym.wrappers.RecordVideo(
        gym.make(
            "ClusteredBAI-Discrete-v0", instance=INSTANCE, render_mode="rgb_array", max_pulls=6
        ),
        str(tmp_path),
        episode_trigger=lambda number: True,
        disable_logger=True,
    )
    env.reset(seed=0)
    for action in range(6):
        env.step(action)
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 2000


def test_frame_lists_through_make() -> None:
    for name in ("ClusteredBAI-v0", "ClusteredBAI-Discrete-v0"):
        env = gym.make(name, render_mode="rgb_array_list")
        env.reset(seed=0)
        assert len(env.render()) == 1


def test_vector_frame_lists() -> None:
    envs = gym.make_vec(TINY, num_envs=2, render_mode="rgb_array_list")
    envs.reset(seed=0)
    envs.step(np.array([0, 1]))
    envs.step(np.array([2, 12]))
    frames = envs.render()
    assert frames is not None
    assert [len(one) for one in frames] == [3, 3]
    assert frames[0][1].shape == (640, 1120, 3)
    assert pixels(frames[1][2], GREEN) + pixels(frames[1][2], RED) > 0
    assert [len(one) for one in envs.render() or ()] == [0, 0]


def test_vector_frame_lists_have_the_ends_of_episodes() -> None:
    """Whether the next episode begins in the same step or in the next one."""
    for mode, ends in (("SAME_STEP", [False, True, True]), ("NEXT_STEP", [False, True, False])):
        envs = gym.make_vec(
            TINY,
            num_envs=1,
            render_mode="rgb_array_list",
            autoreset_mode=gym.vector.AutoresetMode[mode],
        )
        envs.reset(seed=0)
        envs.step(np.array([12]))
        envs.step(np.array([12]))
        [frames] = envs.render() or ()
        assert [pixels(frame, GREEN) > 0 for frame in frames] == ends


def test_vector_pictures() -> None:
    envs = gym.make_vec(
        "ClusteredBAI-Discrete-v0", num_envs=2, instance=INSTANCE, render_mode="rgb_array"
    )
    single = gym.make("ClusteredBAI-Discrete-v0", instance=INSTANCE, render_mode="rgb_array")
    envs.reset(seed=0)
    single.reset(seed=0)
    frames: Any = envs.render()
    assert np.array_equal(frames[0], single.render())
    assert np.array_equal(frames[0], frames[1])
    for action in range(12):
        envs.step(np.array([action, 0]))
    envs.step(np.array([12, 0]))
    frames = envs.render()
    assert pixels(frames[0], AMBER) == 0
    assert pixels(frames[0], GREEN) > 0
    assert pixels(frames[1], AMBER) > 0
    envs.close()


@pytest.mark.parametrize("truncation", ["answer", "penalty", "free"])
def test_vector_pictures_are_those_of_the_single_environment(truncation: str) -> None:
    """Without noise all is determined by the actions: also the last frame, with wrong answers."""
    settings = {
        "instance": cbg.Instance(INSTANCE.means, INSTANCE.clusters, cbg.Gaussian(0.0)),
        "max_pulls": 4,
        "truncation": truncation,
        "render_mode": "rgb_array",
    }
    envs = gym.make_vec("ClusteredBAI-Discrete-v0", num_envs=1, **settings)
    single = gym.make("ClusteredBAI-Discrete-v0", **settings)
    envs.reset(seed=0)
    single.reset(seed=0)
    for action in (0, 3, 7, 11):
        envs.step(np.array([action]))
        single.step(action)
        [frame] = envs.render() or ()
        assert np.array_equal(frame, single.render())
    assert (pixels(frame, RED) > 0) == (truncation == "answer")


def test_human_without_a_display_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    import matplotlib

    matplotlib.use("agg")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = cbg.ClusteredBAIEnv(INSTANCE, render_mode="human")
        env.reset(seed=0)
        env.step((cbg.PULL, (0, 0)))
        assert env.render() is None
    messages = [str(one.message) for one in caught]
    assert sum("cannot open a window" in message for message in messages) == 1
    assert any("RecordVideo" in message for message in messages)


def test_human_with_a_display_shows_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[np.ndarray] = []
    pauses: list[float] = []

    class Window:
        def show(self, frame: np.ndarray, seconds: float) -> None:
            shown.append(frame)
            pauses.append(seconds)

    monkeypatch.setattr(rendering, "Window", Window)
    env = cbg.ClusteredBAIEnv(INSTANCE, render_mode="human")
    env.reset(seed=0)
    env.step((cbg.PULL, (0, 0)))
    env.step((cbg.STOP, [0, 1, 1, 0]))
    assert len(shown) == 3
    assert pauses == [1 / 20] * 3
    assert len({frame.tobytes() for frame in shown}) == 3


def test_render_without_a_mode_warns() -> None:
    env = cbg.ClusteredBAIEnv(INSTANCE)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_frames_do_not_load_matplotlib() -> None:
    code = (
        "import sys, gymnasium as gym; env = gym.make('clustered_bandit_gym:ClusteredBAI-v0', render_mode='rgb_array');"
        "env.reset(seed=0); print('matplotlib' in sys.modules); env.render();"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "False", "False"]
