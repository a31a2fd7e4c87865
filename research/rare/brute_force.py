"""Error rates by brute force, for the tests of `rare`: a million plays of one agent.

    python -m research.rare brute-force

One agent alone, four arms, an engine at level δ. A million agents of one cluster run it side by
side, each on rewards of its own, so every agent is one play. `tests/research/test_rare.py` holds
the figures this prints.
"""

from __future__ import annotations

from datetime import date

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.engines.registry import get_engine

#: Four arms, the best one first: two rivals near it, one further away.
MEANS = (0.5, 0.46, 0.45, 0.4)


def wrong_plays(engine: str, delta: float, plays: int, seed: int, batch: int = 100_000) -> int:
    """How many of `plays` plays end with a wrong arm."""
    run = get_engine(engine)
    arms = np.arange(len(MEANS))
    wrong = 0
    for start in range(0, plays, batch):
        agents = min(batch, plays - start)
        instance = cbg.Instance([MEANS], np.zeros(agents, dtype=np.int64))
        federation = cbg.Federation(
            instance, cbg.Problem.of(instance, delta), np.random.SeedSequence((seed, start))
        )

        def find_best(block: cbg.Block) -> cbg.ArmIndex:
            active, _ = run(block, arms, delta)
            return cbg.ArmIndex(active.argmax(axis=1), among=arms.size)

        answers = federation.local(federation.agents, find_best)
        wrong += int(np.count_nonzero(answers != 0))
    return wrong


def report(plays: int, seed: int) -> None:
    """Print the error rates."""
    print(f"clustered-bandit-gym {cbg.__version__}, {date.today()}")
    print(f"means {MEANS}, {plays:,} plays of one agent")
    for engine, delta in (("mixture", 0.3), ("mixture", 0.1)):
        wrong = wrong_plays(engine, delta, plays, seed)
        print(f"{engine:<12} δ = {delta:g}: {wrong:,} wrong, {wrong / plays:.3e}")
