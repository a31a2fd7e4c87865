"""Makes pictures of the documentation: `python docs/make_images.py`. The report's screenshot needs Chromium on the path."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
from PIL import Image, ImageColor

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.report import write_report

IMAGES = Path(__file__).resolve().parent / "images"
#: Colours of the drawing that must survive a GIF's palette: page, tiles, ink, rings, bars.
PALETTE = [
    *("#fbfaf6", "#efece3", "#c3bfb2", "#22303c", "#5f6a74", "#f2a30f", "#2e9e5b", "#d3394c"),
    *("#8fb3bf", "#8ccaa5", "#e79aa3", "#cbe2c3", "#ffffff"),
]
#: Frames of an environment's GIF, the last one after the stop.
FRAMES = 12
#: Its width and height: as wide as the column of text.
SIZE = (720, 411)
FLAGS = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --hide-scrollbars"


def environments() -> None:
    """A short episode of every environment that needs no data of the user's, as a GIF for its page."""
    from clustered_bandit_gym.envs_registry import CATALOGUE

    folder = IMAGES / "environments"
    folder.mkdir(exist_ok=True)
    for name, entry in CATALOGUE.items():
        if entry.needs_data or "Discrete" in name:
            continue
        env = gym.make(name, render_mode="rgb_array", disable_env_checker=True)
        obs, _ = env.reset(seed=3)
        n, k = obs["pulls"].shape
        rng = np.random.default_rng(0)
        frames = []
        for _ in range(FRAMES - 1):
            for _ in range(max(10, min(n * k // 4, 2000))):
                obs, *_ = env.step((cbg.PULL, (int(rng.integers(n)), int(rng.integers(k)))))
            frames.append(Image.fromarray(env.render()))
        env.step((cbg.STOP, obs["means"].argmax(axis=1)))
        frames.append(Image.fromarray(env.render()))
        path = folder / f"{name.removesuffix('-v0').lower()}.gif"
        write_gif(path, frames, [250] * (FRAMES - 1) + [2500])


def play() -> None:
    """Successive elimination at twelve agents of three clusters, half a second per round: 20 seconds."""
    rng = np.random.default_rng(4)
    means = rng.uniform(0.0, 0.7, (3, 8))
    means[[0, 1, 2], [1, 4, 6]] = 1.0
    instance = cbg.Instance(means, clusters=np.arange(12) % 3)
    env = gym.make("ClusteredBAI-v0", instance=instance, render_mode="rgb_array")
    obs, _ = env.reset(seed=3)
    active = np.ones(obs["pulls"].shape, dtype=bool)
    frames = [Image.fromarray(env.render())]
    while active.sum() > len(active):
        for agent, arm in np.argwhere(active):
            for _ in range(4):
                obs, *_ = env.step((cbg.PULL, (int(agent), int(arm))))
        width = np.sqrt(2 * np.log(4 * active.size * obs["pulls"] ** 2 / 0.05) / obs["pulls"])
        best_low = np.where(active, obs["means"] - width, -np.inf).max(axis=1, keepdims=True)
        active &= obs["means"] + width >= best_low
        frames.append(Image.fromarray(env.render()))
    env.step((cbg.STOP, active.argmax(axis=1)))
    chosen = np.linspace(0, len(frames) - 1, 36).round().astype(int)
    shown = [*(frames[i] for i in chosen), Image.fromarray(env.render())]
    write_gif(IMAGES / "play.gif", shown, [450] * 36 + [3800])


def write_gif(path: Path, frames: list[Image.Image], milliseconds: list[int]) -> None:
    """An animation with one palette for all frames."""
    small = [frame.resize(SIZE, Image.Resampling.LANCZOS) for frame in frames]
    # The colours of the drawing, and what the first and the last frame need besides. Maximum
    # coverage keeps rare colours, which a median cut merges.
    both = Image.new("RGB", (SIZE[0], 2 * SIZE[1]))
    both.paste(small[0], (0, 0))
    both.paste(small[-1], (0, SIZE[1]))
    others = both.quantize(256 - len(PALETTE), method=Image.Quantize.MAXCOVERAGE).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette(
        [*(part for colour in PALETTE for part in ImageColor.getrgb(colour)), *(others or [])]
    )
    first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small]
    first.save(path, save_all=True, append_images=rest, duration=milliseconds, loop=0)


def report() -> None:
    """The report of a small sweep, as Chromium shows it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium: the report's picture stays as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        policies = ["naive", "cl-bai", "bai-cl", "bai-cl++", "structured-bai"]
        for n_agents in (30, 100, 300):
            cbg.evaluate(
                policies,
                "ClusteredBAI-PaperSmall-v0",
                n_agents=n_agents,
                delta=0.1,
                trials=45,
                out=Path(folder) / "small",
                progress=False,
            )
        page = write_report(Path(folder) / "small", Path(folder) / "report.html")
        shot = f"--screenshot={IMAGES / 'report.png'}"
        profile = f"--user-data-dir={folder}/profile"
        subprocess.run(
            [chromium, *FLAGS.split(), profile, "--window-size=1400,1556", shot, page.as_uri()],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    play()
    environments()
    report()
