"""A sweep killed four times at random moments ends with exactly the rows of one that was not."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError

# Plays once and forks, so that four killed processes cost four runs and not four imports. Each child
# is a process of its own, killed with SIGKILL; when it has ended by itself, the job is done.
KILLER = """
import os, random, signal, sys, time
import clustered_bandit_gym as cbg

out, seed = sys.argv[1], int(sys.argv[2])
def job(trials=100, out=out):
    cbg.sweep(["naive", "bai-cl"], "ClusteredBAI-PaperSmall-v0", n_agents=(6, 9), trials=trials, bound=False, out=out,
              progress=False)

job(trials=1, out=out + "-first")

rng, kills, counts = random.Random(seed), 0, []
while True:
    child = os.fork()
    if child == 0:
        job()
        os._exit(0)
    if kills < 4:
        # Wait until some rows have come, then a random moment more: every kill hits a run at work.
        goal, start = (counts[-1] if counts else 0) + rng.randint(1, 10), time.time()
        while time.time() - start < 30:
            try:
                with cbg.Store(out, create=False) as kept:
                    if len(kept) >= goal:
                        break
            except ValueError:
                pass
            time.sleep(0.02)
        time.sleep(rng.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "it had ended before it was killed"
        kills += 1
        with cbg.Store(out, create=False) as kept:
            counts.append(len(kept))
    else:
        _, status = os.waitpid(child, 0)
        assert status == 0
        break
print(counts)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_four_times(tmp_path: Path) -> None:
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(out), "1"], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert len(counts) == 4
    assert all(a < b for a, b in itertools.pairwise(counts)), (
        counts
    )  # every run added to what was there
    assert counts[-1] < 400
    whole = cbg.sweep(
        ["naive", "bai-cl"],
        "ClusteredBAI-PaperSmall-v0",
        n_agents=(6, 9),
        trials=100,
        bound=False,
        progress=False,
    ).trials
    kept = cbg.Board.load(out).trials
    assert len(kept) == len(whole) == 400

    def content(table: object) -> list[str]:
        rows = table.drop(columns="seconds").astype(object).to_dict("records")  # type: ignore[attr-defined]
        return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)

    assert content(kept) == content(whole)


COMMAND = [
    sys.executable,
    "-m",
    "clustered_bandit_gym.cli",
    "compare",
    "ClusteredBAI-PaperSmall-v0",
    "--n-agents",
    "9",
]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_the_command_line_killed_with_two_processes(tmp_path: Path, name: str) -> None:
    """The same with the real command and worker processes, which must not outlive it."""
    out = tmp_path / "out"
    arguments = [
        *COMMAND,
        "--policies",
        "naive",
        "bai-cl",
        "--trials",
        "60",
        "--jobs",
        "2",
        "--out",
        str(out),
        "--quiet",
    ]
    with subprocess.Popen(
        arguments,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as run:
        start, kept = time.time(), 0
        while kept < 20 and time.time() - start < 60:
            time.sleep(0.05)
            # It does not exist yet. To open it for writing would wait for the end of the run.
            with suppress(UserError), cbg.Store(out, create=False) as store:
                kept = len(store)
        run.send_signal(getattr(signal, name))
        _, said = run.communicate()
    if name == "SIGTERM":
        assert run.returncode == 143
        assert said == "ended by SIGTERM; --out keeps the trials that had ended\n"
    assert 20 <= kept < 120
    group = run.pid
    for _ in range(100):  # the workers look for their parent twice a second
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(group, signal.SIGKILL)
        pytest.fail("workers outlived the run")
    whole = cbg.sweep(
        ["naive", "bai-cl"],
        "ClusteredBAI-PaperSmall-v0",
        n_agents=9,
        trials=60,
        progress=False,
        out=out,
    )
    assert len(whole.trials) == 120
    fresh = cbg.sweep(
        ["naive", "bai-cl"], "ClusteredBAI-PaperSmall-v0", n_agents=9, trials=20, progress=False
    ).trials
    resumed = whole.trials[whole.trials["trial"] < 20].reset_index(drop=True)
    assert resumed.drop(columns="seconds").equals(fresh.drop(columns="seconds"))
