from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clustered_bandit_gym import (
    ArmIndex,
    ArmSet,
    Bernoulli,
    Block,
    BudgetExceeded,
    Categorical,
    Federation,
    Flag,
    Gaussian,
    Instance,
    Payload,
    PlayOver,
    Problem,
    Reals,
)
from clustered_bandit_gym.game.checks import MAX_TIMES
from clustered_bandit_gym.game.judge import misplaced
from clustered_bandit_gym.game.pulls import MAX_PULLS
from clustered_bandit_gym.generators import PaperRandom, PaperSmall, RandomFamily

ALARM = 1e-10


def small(n_agents: int = 6, seed: int = 0, **settings: Any) -> Federation:
    instance = PaperSmall(n_agents)(np.random.default_rng(1))
    return Federation(instance, Problem.of(instance, 0.1), seed, **settings)


def noiseless(clusters: list[int] | None = None, **settings: Any) -> Federation:
    """Averages are the means, so results can be compared digit by digit."""
    means = [[0.9, 0.1, 0.2], [0.0, 0.8, 0.3]]
    instance = Instance(means, [0, 1, 1, 0] if clusters is None else clusters, Gaussian(0.0))
    return Federation(instance, Problem.of(instance, 0.1), 0, **settings)


# --- pulls --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_counts_and_bills_of_central_pulls(data: st.DataObject) -> None:
    """Random shapes that broadcast, against a plain loop over the rows."""
    federation = small()
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=0, max_size=3)))

    def array(low: int, high: int) -> Any:
        mine = shape[data.draw(st.integers(0, len(shape))) :]
        mine = tuple(data.draw(st.sampled_from([1, size])) for size in mine)
        cells = data.draw(st.lists(st.integers(low, high), min_size=int(np.prod(mine)), max_size=int(np.prod(mine))))
        return np.array(cells, dtype=np.int64).reshape(mine)

    per_agent: Counter[int] = Counter()
    bits = rows = 0
    for _ in range(2):
        agents, arms, times = array(0, 5), array(0, 9), array(1, 10**6)
        averages = federation.pull(agents, arms, times)
        each = np.broadcast(agents, arms, times)
        assert averages.shape == each.shape
        for agent, _, n in each:
            per_agent[int(agent)] += int(n)
            length = int(n).bit_length()
            bits += 4 + (length - 1) + 2 * (length.bit_length() - 1) + 1  # Elias δ
            rows += 1
    assert federation.pulls_per_agent.tolist() == [per_agent[i] for i in range(6)]
    assert federation.pulls == sum(per_agent.values())
    assert federation.pulls_by_phase == {"play": federation.pulls}
    assert federation.ledger.summary() == {
        "cost": bits + 32 * rows,
        "bits_up": 0,
        "bits_down": bits,
        "reals_up": rows,
        "reals_down": 0,
    }
    assert federation.rounds == 2


def test_pulls_come_from_the_right_cells() -> None:
    federation = noiseless()
    assert federation.pull([0, 1, 2, 3], [0, 1, 2, 1]).tolist() == [0.9, 0.8, 0.3, 0.1]
    assert federation.pull(2, 1).item() == 0.8
    assert federation.pull([[0], [1]], [0, 2], 5).tolist() == [[0.9, 0.2], [0.0, 0.3]]

    def program(block: Block) -> Reals:
        assert block.pull([1], [0]).tolist() == [0.0 if block.agents[1] in (1, 2) else 0.9]
        assert block.part([1]).pull_grid(2).shape == (1, 3)
        return Reals(block.pull_grid(3))

    sent = np.float32([[0.9, 0.1, 0.2], [0.0, 0.8, 0.3]])  # reals travel in 32 bits
    assert federation.local([3, 1], program).tolist() == sent.tolist()


def test_pulls_have_the_law_of_their_cell() -> None:
    """10^4 averages of 25 pulls by an agent, centrally and locally, against the normal law (KS, false alarm 1e-10)."""
    federation = small()
    mean = federation._instance.means[federation._instance.clusters[4], 7]
    central = federation.pull(np.full(10_000, 4), 7, 25)
    local = federation.local([4], lambda block: Reals(block.pull(np.zeros(10_000, int), 7, 25)[None, :]))
    for averages in (central, local[0]):
        assert stats.kstest((averages - mean) * 5, "norm").pvalue > ALARM


def test_one_pull_at_a_time_is_the_same_law() -> None:
    instance = RandomFamily(rewards="categorical")(np.random.default_rng(5))
    federation = Federation(instance, Problem.of(instance, 0.1), 3)
    ones = np.array([federation.draw_one(2, 4) for _ in range(20_000)])
    batch = federation.pull(np.full(20_000, 2), 4)
    assert stats.ks_2samp(ones, batch, method="asymp").pvalue > ALARM
    assert federation.pulls == 40_000
    assert federation.pulls_per_agent.tolist() == [0, 0, 40_000] + [0] * 9


def test_stepwise_pulls_go_through_the_step() -> None:
    federation = small()
    calls: list[tuple[int, int]] = []

    def step(agent: int, arm: int) -> float:
        calls.append((agent, arm))
        return float(len(calls))

    with federation.stepping(step):
        averages = federation.local([2, 5], lambda block: Reals(block.pull([[0], [1]], [[3, 4]], [[2], [1]])))
    assert calls == [(2, 3), (2, 3), (2, 4), (2, 4), (5, 3), (5, 4)]
    assert averages.tolist() == [[1.5, 3.5], [5.0, 6.0]]


def test_no_rows_cost_nothing() -> None:
    federation = small()
    assert federation.pull([], []).shape == (0,)
    assert federation.pull(np.zeros((0, 3), int), [1, 2, 3], 5).shape == (0, 3)
    assert federation.local([], lambda block: Flag(True)) is None
    assert (federation.pulls, federation.rounds, federation.ledger.cost) == (0, 0, 0)


def test_budget_is_checked_before_drawing() -> None:
    federation, twin = small(max_pulls=100), small(max_pulls=100)
    federation.pull(0, 0, 60)
    twin.pull(0, 0, 60)
    before = federation.ledger.summary()
    for refused in (
        lambda: federation.pull(0, 0, 41),
        lambda: federation.pull([0, 1, 2], 0, 14),
        lambda: federation.pull([0, 1], 0, [40, 1]),
        lambda: federation.local([0, 1], lambda block: Reals(block.pull_grid(3))),
        lambda: federation.pull(0, 0, 10**18),
        lambda: federation.pull(0, 0, 10**30),
        lambda: federation.pull(np.zeros(2**12, int), 0, MAX_TIMES),
        lambda: federation.pull(np.zeros(2**12, int), 0, np.full(2**12, MAX_TIMES)),
    ):
        with pytest.raises(BudgetExceeded):
            refused()
    assert federation.pulls == 60
    assert federation.ledger.summary() == before
    assert federation.pulls_per_agent.sum() == 60
    assert federation.pull(0, 0, 40) == twin.pull(0, 0, 40), "a refused pull used up randomness"
    with pytest.raises(BudgetExceeded, match="100 pulls made"):
        federation.draw_one(0, 0)


def test_counts_never_overflow() -> None:
    federation = small()
    for _ in range(MAX_PULLS // (MAX_TIMES * 300) + 1):
        with pytest.raises(BudgetExceeded) if federation.pulls > MAX_PULLS - 300 * MAX_TIMES else _nothing():
            federation.pull(np.zeros(300, int), 0, np.full(300, MAX_TIMES))
    assert 0 < federation.pulls <= MAX_PULLS
    assert federation.pulls == federation.pulls_per_agent[0]
    assert federation.ledger.bits("down") == federation.ledger.totals["play", "down", "order"].messages * (4 + 64)


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("agents", "arms", "times", "message"),
    [
        ([6], [0], 1, "agent 6 is out of range: agents run from 0 to 5"),
        ([-1], [0], 1, "agent -1 is out of range"),
        ([0], [10], 1, "arm 10 is out of range: arms run from 0 to 9"),
        ([0], [-1], 1, "arm -1 is out of range"),
        ([0.0], [0], 1, "integers"),
        ([0], [0.0], 1, "integers"),
        ([True], [0], 1, "integers"),
        ([0], [0], 0, "times must be >= 1"),
        ([0], [0], [-3], "times must be >= 1"),
        ([0], [0], 2.0, "whole numbers"),
        ([0], [0], [1.5], "whole numbers"),
        ([0], [0], True, "whole numbers"),
        ([0, 1], [0, 1, 2], 1, "shape mismatch|broadcast"),
    ],
)
def test_bad_pulls(agents: list, arms: list, times: Any, message: str) -> None:
    federation = small()

    def program(block: Block) -> Flag:
        block.pull(agents, arms, times)
        return Flag(True)

    with pytest.raises(ValueError, match=message):
        federation.pull(agents, arms, times)
    with pytest.raises(ValueError, match=message.replace("agent", "row")):
        federation.local(federation.agents, program)
    assert (federation.pulls, federation.ledger.cost, federation.rounds) == (0, 0, 0)


# --- local programs -----------------------------------------------------------------------------------------------


def test_what_is_returned_is_what_is_billed() -> None:
    federation = small(itemise=True)

    def program(block: Block, arms: np.ndarray, allowed: np.ndarray) -> tuple[Payload, ...]:
        assert arms.tolist() == [3, 7, 3]
        assert allowed.tolist() == [[True] * 10] * 3
        return ArmIndex(arms, among=10), Reals(np.stack([block.agents, -block.agents], axis=1)), Flag(arms == 3)

    with federation.phase("ask"):
        down = [ArmIndex([3, 7, 3], among=[3, 7]), ArmSet(np.ones(10, dtype=bool))]
        arms, reals, flags = federation.local([4, 0, 2], program, down)
    assert arms.tolist() == [3, 7, 3]
    assert reals.tolist() == [[4, -4], [0, 0], [2, -2]]
    assert flags.tolist() == [True, False, True]
    assert federation.ledger.summary() == {
        "cost": 3 * (1 + 10) + 3 * (4 + 1) + 32 * 6,
        "bits_up": 15,
        "bits_down": 33,
        "reals_up": 6,
        "reals_down": 0,
    }
    assert federation.rounds == 1
    assert {message.phase for message in federation.ledger.messages()} == {"ask"}
    assert [m.agent for m in federation.ledger.messages()][:3] == [4, 0, 2]
    assert federation.local([1], lambda block: None) is None
    assert federation.rounds == 1, "nothing was sent"


def test_large_sets_of_agents_run_block_by_block() -> None:
    """The result does not show where the blocks were cut, and each row gets its own part of what was sent."""
    instance = PaperRandom(5000, 4, 100)(np.random.default_rng(0))
    federation = Federation(instance, Problem.of(instance, 0.1), 0)
    agents = np.random.default_rng(1).permutation(5000)
    sizes = []

    def program(block: Block, number: np.ndarray) -> tuple[Reals, Flag]:
        sizes.append(len(block))
        assert np.array_equal(number, block.agents * 2.0)
        return Reals(number + block.pull_grid(10**12).mean(axis=1) * 0), Flag(np.ones(len(block), dtype=bool))

    numbers, flags = federation.local(agents, program, Reals(agents * 2.0))
    assert len(sizes) > 1
    assert np.array_equal(numbers, agents * 2.0)
    assert flags.all()
    assert federation.rounds == 1
    assert federation.pulls == 5000 * 100 * 10**12
    assert np.all(federation.pulls_per_agent == 100 * 10**12)
    assert federation.ledger.summary()["cost"] == 5000 * (32 + 32 + 1)


def test_agents_remember_and_the_centre_does_not_see_it() -> None:
    federation = small()

    def keep(block: Block) -> None:
        block.save("number", block.agents * 10.0)

    def recall(block: Block) -> Reals:
        return Reals(block.load("number"))

    federation.local([1, 3], keep)
    assert federation.ledger.cost == 0
    assert federation.local([3, 2, 1], recall).tolist() == [30, 0, 10]
    with pytest.raises(KeyError, match="no agent has saved 'other'"):
        federation.local([1], lambda block: Reals(block.load("other")))
    with pytest.raises(ValueError, match="take another name"):
        federation.local([1], lambda block: block.save("number", np.zeros((1, 4))))
    with pytest.raises(ValueError, match="one row for each of 2 agents"):
        federation.local([1, 2], lambda block: block.save("more", np.zeros(1)))
    assert federation.local([3], recall).tolist() == [30]


def test_a_block_ends_with_its_program() -> None:
    federation = small()
    kept: list[Block] = []
    federation.local([0, 1], lambda block: kept.extend([block, block.part([1])]))
    for block in kept:
        for use in (lambda b: b.pull([0], [0]), lambda b: b.pull_grid(1), lambda b: b.save("x", np.zeros(len(b)))):
            with pytest.raises(PlayOver, match="has returned"):
                use(block)
    assert federation.pulls == 0


@pytest.mark.parametrize(
    ("agents", "program", "down", "error", "message"),
    [
        ([0, 0], lambda block: None, (), ValueError, "listed twice"),
        ([2, 1, 2], lambda block: None, (), ValueError, "listed twice"),
        ([6], lambda block: None, (), ValueError, "out of range"),
        ([[0]], lambda block: None, (), ValueError, "vector of ids"),
        (3, lambda block: None, (), ValueError, "vector of ids"),
        ([0, 1], lambda block: np.zeros(2), (), TypeError, "must be a payload"),
        ([0, 1], lambda block: [np.zeros(2)], (), TypeError, "must be a payload"),
        ([0, 1], lambda block: Reals(np.zeros(3)), (), ValueError, "3 rows for 2 agents"),
        ([0, 1], lambda block, x: None, Reals(np.zeros(3)), ValueError, "3 rows for 2 agents"),
    ],
)
def test_bad_programs(agents: Any, program: Any, down: Any, error: type[Exception], message: str) -> None:
    federation = small()
    with pytest.raises(error, match=message):
        federation.local(agents, program, down)
    assert federation.ledger.cost == 0


def test_phases_nest_and_end_with_an_error() -> None:
    federation = small()
    federation.pull(0, 0, 1)
    with federation.phase("outer"):
        federation.pull(0, 0, 2)
        with federation.phase("inner"):
            federation.pull(0, 0, 4)
        federation.pull(0, 0, 8)
    with pytest.raises(RuntimeError, match="mine"), federation.phase("outer"):
        raise RuntimeError("mine")
    federation.pull(0, 0, 16)
    assert federation.pulls_by_phase == {"play": 17, "outer": 10, "inner": 4}
    assert federation.ledger.by_phase() == {"play": 2 * 36 + 1 + 9, "outer": 2 * 36 + 4 + 8, "inner": 36 + 5}


# --- the judge ----------------------------------------------------------------------------------------------------


def test_judge() -> None:
    federation = noiseless()
    judgement = federation.stop([0, 1, 2, 0])
    assert not judgement.correct
    assert judgement.agent_correct.tolist() == [True, True, False, True]
    assert judgement.wrong_agents == 1
    assert judgement.arms.tolist() == [0, 1, 2, 0]
    assert (judgement.clustering_errors, judgement.arm_errors) == (None, None)
    assert federation.judgement is judgement
    assert noiseless().stop([0, 1, 1, 0]).correct
    for late in (
        lambda: federation.stop([0, 1, 1, 0]),
        lambda: federation.pull(0, 0),
        lambda: federation.local([0], lambda block: None),
    ):
        with pytest.raises(PlayOver, match="has stopped"):
            late()


def test_any_tied_arm_is_right() -> None:
    instance = Instance([[0.5, 0.5, 0.1], [0.1, 0.0, 0.3]], [0, 0, 0, 1], allow_ties=True)
    judgement = Federation(instance, Problem.of(instance, 0.1)).stop([0, 1, 2, 2])
    assert judgement.agent_correct.tolist() == [True, True, False, True]


@pytest.mark.parametrize("arms", [[0, 1, 1], [[0, 1, 1, 0]], [0, 1, 1, 3], [0, 1, 1, -1], [0.0, 1, 1, 0], 0])
def test_bad_recommendations(arms: Any) -> None:
    federation = noiseless()
    with pytest.raises(ValueError):
        federation.stop(arms)
    assert federation.stop([0, 1, 1, 0]).correct, "a refused recommendation does not end the play"


def test_judge_tells_clustering_errors_from_arm_errors() -> None:
    federation = noiseless([0, 0, 0, 1, 1])
    federation.report_clusters([7, 7, -1, 7, -1])
    judgement = federation.stop([0, 2, 0, 0, 0])
    # Label 7 is mostly cluster 0, so agent 3 is misplaced; label -1 is a draw, which goes to cluster 0: agent 4.
    assert judgement.clustering_errors == 2
    assert judgement.wrong_agents == 3
    assert judgement.arm_errors == 1, "agent 1 was placed rightly and still got the wrong arm"
    for labels in ([0, 1], [0.5] * 5, [[0] * 5]):
        with pytest.raises(ValueError, match="cluster labels"):
            federation.report_clusters(labels)


@given(st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_misplaced_by_brute_force(rows: list[tuple[int, int]]) -> None:
    labels, clusters = np.array(rows, dtype=np.int64).T
    majority = {}
    for label in set(labels.tolist()):
        counts = Counter(clusters[labels == label].tolist())
        majority[label] = min(counts, key=lambda cluster: (-counts[cluster], cluster))
    expected = [majority[label] != cluster for label, cluster in zip(labels.tolist(), clusters.tolist(), strict=True)]
    assert misplaced(labels, clusters).tolist() == expected


# --- seeds, secrecy, set-up ---------------------------------------------------------------------------------------


def test_seeds() -> None:
    def drawn(seed: Any) -> list[float]:
        return small(seed=seed).pull(np.arange(6), 0).tolist()

    assert drawn(3) == drawn(3) != drawn(4)
    root = np.random.SeedSequence(3)
    root.spawn(5)
    assert drawn(root) == drawn(3), "spawning changed the play"
    assert drawn(np.random.SeedSequence(3, spawn_key=(1,))) != drawn(3)
    assert drawn(None) != drawn(None)
    federation, twin = small(seed=3), small(seed=3)
    federation.rng.random(100)
    assert federation.pull(0, 0) == twin.pull(0, 0), "the policy's randomness is a stream of its own"
    assert small(seed=3).rng.random() == small(seed=3).rng.random()


def reachable(root: Any) -> list[Any]:
    """Everything that public attributes, items and elements lead to from `root`."""
    seen: dict[int, Any] = {}
    todo = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, dict):
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set):
            todo += list(thing)
        elif not isinstance(thing, str | bytes | int | float | complex | np.ndarray | np.generic | None.__class__):
            # NumPy's generators have two doors for C code; one of them needs a library that may not be there.
            names = [name for name in dir(thing) if not name.startswith("_") and name not in ("cffi", "ctypes")]
            todo += [getattr(thing, name) for name in names]
    return list(seen.values())


def test_the_truth_is_not_reachable() -> None:
    instance = RandomFamily(rewards="bernoulli")(np.random.default_rng(0))
    federation = Federation(instance, Problem.of(instance, 0.1), 99, itemise=True)
    blocks: list[Block] = []
    federation.local(federation.agents, lambda block: blocks.append(block) or Reals(block.pull_grid(5)))
    federation.report_clusters(np.zeros(instance.n_agents, dtype=int))
    secrets = [instance.means, instance.clusters, instance.agent_best_arms, instance.best_arms, instance.is_best]
    found = reachable(federation) + reachable(blocks[0])
    assert any(thing is federation.problem for thing in found), "the walk must see something"
    for thing in found:
        assert not isinstance(thing, Instance | Bernoulli)
        assert not (isinstance(thing, int) and thing == 99), "the seed would lead to the rewards"
        if isinstance(thing, np.ndarray):
            assert not any(np.array_equal(thing, secret) for secret in secrets)
            assert not any(np.shares_memory(thing, secret) for secret in secrets)


def test_arrays_of_a_play_cannot_be_written_to() -> None:
    federation = small()
    for array in (federation.agents, federation.pulls_per_agent):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        federation.rng.shuffle(federation.agents)


def test_bad_set_up() -> None:
    instance = PaperSmall(6)(np.random.default_rng(0))
    with pytest.raises(ValueError, match="problem is for 5 agents and 10 arms"):
        Federation(instance, Problem(5, 10, 3, 0.1))
    for limit in (0, -1, 2.5, np.nan):
        with pytest.raises(ValueError, match="max_pulls"):
            small(max_pulls=limit)
    with pytest.raises(ValueError, match="c_b"):
        small(c_b=-1.0)


def test_counts_at_agents() -> None:
    instance = Instance([[0.9, 0.1], [0.1, 0.8]], [0, 1, 1], Bernoulli())
    federation = Federation(instance, Problem.of(instance, 0.1), seed=3)

    def program(block: Block) -> Reals:
        assert block.values is not None
        assert block.values.tolist() == [0.0, 1.0]
        counts = block.pull_counts(np.arange(len(block))[:, None], np.arange(2)[None, :], 1000)
        assert (counts.sum(axis=2) == 1000).all()
        return Reals(counts[:, :, 1] / 1000)

    shares = federation.local(federation.agents, program)
    assert federation.pulls == 6000
    assert federation.pulls_per_agent.tolist() == [2000] * 3
    # Hoeffding: off by 0.15 after 1000 pulls with probability 2·exp(−45).
    np.testing.assert_allclose(shares, instance.means[instance.clusters], atol=0.15)
    gaussian = Instance(instance.means, [0, 1, 1])
    with pytest.raises(ValueError, match="cannot be counted"):
        Federation(gaussian, Problem.of(gaussian, 0.1)).local([0], lambda block: block.pull_counts([0], [0], 2))


def test_counts_on_the_centres_orders() -> None:
    laws = np.array([[[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]], [[0.6, 0.2, 0.2], [0.0, 0.9, 0.1]]])
    instance = Instance(None, [0, 1], Categorical([-1.0, 0.5, 2.0], laws))
    for strict in (False, True):
        federation = Federation(instance, Problem.of(instance, 0.1), seed=3)
        centre = federation.view(strict)
        counts = centre.pull_counts([0, 0, 1], [0, 1, 1], [40, 3, 1])
        assert counts.sum(axis=1).tolist() == [40, 3, 1]
        assert counts[1, 2] == 0
        assert federation.pulls == 44
        # C(42, 2) = 861, C(5, 2) = 10 and C(3, 2) = 3 possible answers; the order is that of `pull`.
        assert (federation.ledger.bits("up"), federation.ledger.reals()) == (10 + 4 + 2, 0)
        other = Federation(instance, Problem.of(instance, 0.1), seed=3)
        other.pull([0, 0, 1], [0, 1, 1], [40, 3, 1])
        assert federation.ledger.bits("down") == other.ledger.bits("down")
        assert (federation.rounds, federation.ledger.summary()["reals_up"]) == (1, 0)
        grid = centre.pull_counts(np.arange(2)[:, None], np.arange(2)[None, :], 7)
        assert grid.shape == (2, 2, 3)
        assert federation.ledger.bits("up") == 16 + 4 * 6  # C(9, 2) = 36
    gaussian = Instance(instance.means, [0, 1])
    with pytest.raises(ValueError, match="cannot be counted"):
        Federation(gaussian, Problem.of(gaussian, 0.1)).pull_counts([0], [0], 2)


def test_counts_one_pull_at_a_time() -> None:
    instance = Instance(None, [0], Categorical([-1.0, 0.5, 2.0], np.array([[[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]]])))
    federation = Federation(instance, Problem.of(instance, 0.1), seed=3)
    counts: list[np.ndarray] = []
    with federation.stepping(federation.draw_one):
        federation.local([0], lambda block: counts.append(block.pull_counts([0, 0], [0, 1], [40, 3])))
    assert counts[0].shape == (2, 3)
    assert counts[0].sum(axis=1).tolist() == [40, 3]
    assert counts[0][1, 2] == 0
    assert federation.pulls == 43
