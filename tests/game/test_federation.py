"""A play: local programs, phases, seeds, and what a policy cannot reach."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from small_plays import small

from clustered_bandit_gym import (
    ArmIndex,
    ArmSet,
    Bernoulli,
    Block,
    Federation,
    Flag,
    Instance,
    Payload,
    PlayOver,
    Problem,
    Reals,
)
from clustered_bandit_gym.game.pulls import Simulator
from clustered_bandit_gym.game.seeds import REWARDS, play_stream
from clustered_bandit_gym.generators import PaperRandom, PaperSmall, RandomFamily

ALARM = 1e-10


# --- local programs -----------------------------------------------------------------------------------------------


def test_what_is_returned_is_what_is_billed() -> None:
    federation = small(itemise=True)

    def program(block: Block, arms: np.ndarray, allowed: np.ndarray) -> tuple[Payload, ...]:
        assert arms.tolist() == [3, 7, 3]
        assert allowed.tolist() == [[True] * 10] * 3
        return (
            ArmIndex(arms, among=10),
            Reals(np.stack([block.agents, -block.agents], axis=1)),
            Flag(arms == 3),
        )

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
        return Reals(number + block.pull_grid(10**12).mean(axis=1) * 0), Flag(
            np.ones(len(block), dtype=bool)
        )

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
    with pytest.raises(ValueError, match="rows of one form"):
        federation.local([1], lambda block: block.save("number", np.zeros((1, 4))))
    with pytest.raises(ValueError, match=r"expected float64 of shape \(2,\)"):
        federation.local([1, 2], lambda block: block.save("more", np.zeros(1)))
    assert federation.local([3], recall).tolist() == [30]


def test_a_block_ends_with_its_program() -> None:
    federation = small()
    kept: list[Block] = []
    federation.local([0, 1], lambda block: kept.extend([block, block.part([1])]))
    for block in kept:
        for use in (
            lambda b: b.pull([0], [0]),
            lambda b: b.pull_grid(1),
            lambda b: b.save("x", np.zeros(len(b))),
        ):
            with pytest.raises(PlayOver, match="has returned"):
                use(block)
    assert federation.pulls == 0


@pytest.mark.parametrize(
    ("agents", "program", "down", "error", "message"),
    [
        ([0, 0], lambda block: None, (), ValueError, "at most once"),
        ([2, 1, 2], lambda block: None, (), ValueError, "at most once"),
        ([6], lambda block: None, (), ValueError, "out of range"),
        ([[0]], lambda block: None, (), ValueError, "vector of ids"),
        (3, lambda block: None, (), ValueError, "vector of ids"),
        ([0, 1], lambda block: np.zeros(2), (), TypeError, "a message is a payload"),
        ([0, 1], lambda block: [np.zeros(2)], (), TypeError, "a message is a payload"),
        ([0, 1], lambda block: Reals(np.zeros(3)), (), ValueError, "3 rows for 2 agents"),
        ([0, 1], lambda block, x: None, Reals(np.zeros(3)), ValueError, "3 rows for 2 agents"),
    ],
)
def test_bad_programs(
    agents: Any, program: Any, down: Any, error: type[Exception], message: str
) -> None:
    federation = small()
    with pytest.raises(error, match=message):
        federation.local(agents, program, down)
    assert federation.ledger.cost == 0


def test_programs_of_another_form_and_shapes_that_do_not_fit() -> None:
    federation = small()
    for program, down in ((lambda block, arm: None, ()), (lambda block: None, Flag(True))):
        with pytest.raises(ValueError, match=r"is called with the block and one array for each"):
            federation.local([0], program, down)
    with pytest.raises(TypeError, match="NoneType"):  # not every TypeError is one of the form
        federation.local([0], lambda block: None + 1)
    for times in (2, [2, 2]):
        with pytest.raises(
            ValueError, match=r"need one entry for each request, .*got \[\(2,\), \(3,\)"
        ):
            federation.pull([0, 1], [0, 1, 2], times)
    with pytest.raises(ValueError, match="need one entry for each request"):
        federation.local([0, 1], lambda block: block.pull(np.array([0, 1]), np.array([0, 1, 2])))


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
    assert federation.ledger.by_phase() == {
        "play": 2 * 36 + 1 + 9,
        "outer": 2 * 36 + 4 + 8,
        "inner": 36 + 5,
    }


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
    assert federation.pull(0, 0) == twin.pull(0, 0), (
        "the policy's randomness is a stream of its own"
    )
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
        elif not isinstance(
            thing, str | bytes | int | float | complex | np.ndarray | np.generic | None.__class__
        ):
            # NumPy's generators have two doors for C code; one of them needs a library that may not be there.
            names = [
                name
                for name in dir(thing)
                if not name.startswith("_") and name not in ("cffi", "ctypes")
            ]
            todo += [getattr(thing, name) for name in names]
    return list(seen.values())


def test_the_truth_is_not_reachable() -> None:
    instance = RandomFamily(rewards="bernoulli")(np.random.default_rng(0))
    federation = Federation(instance, Problem.of(instance, 0.1), 99, itemise=True)
    blocks: list[Block] = []
    federation.local(
        federation.agents, lambda block: blocks.append(block) or Reals(block.pull_grid(5))
    )
    federation.report_clusters(np.zeros(instance.n_agents, dtype=int))
    secrets = [
        instance.means,
        instance.clusters,
        instance.agent_best_arms,
        instance.best_arms,
        instance.is_best,
    ]
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
    with pytest.raises(ValueError, match="read-only"):
        federation.agents[0] = 1
    federation.pulls_per_agent[0] = 1
    assert federation.pulls_per_agent[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        federation.rng.shuffle(federation.agents)


def test_a_play_needs_no_truth() -> None:
    """The same rewards from a source alone: the same play, with an answer and without a judgement."""
    instance = Instance([[0.2, 0.9], [0.8, 0.1]], [0, 1, 0], Bernoulli())
    problem = Problem.of(instance, 0.1)
    judged = Federation(instance, problem, 3)
    blind = Federation(
        None, problem, 3, source=Simulator(instance, rewards_of_seed_3()), values=[1, 0]
    )
    for federation in (judged, blind):
        assert federation.reward_values is not None
        assert federation.reward_values.tolist() == [0, 1]
    assert np.array_equal(
        blind.pull_counts([0, 1, 2], [0, 1, 1], 50), judged.pull_counts([0, 1, 2], [0, 1, 1], 50)
    )
    assert blind.rng.random() == judged.rng.random()
    blind.report_clusters([5, 6, 5])
    blind.view().stop([1, 0, 1])
    assert blind.answer is not None
    assert blind.answer.tolist() == [1, 0, 1]
    assert blind.labels is not None
    assert blind.labels.tolist() == [5, 6, 5]
    assert blind.judgement is None
    with pytest.raises(PlayOver):
        blind.pull([0], [0])
    play = Federation(None, problem, source=Simulator(instance, rewards_of_seed_3()))
    assert play.stop([1, 0, 1]) is None
    with pytest.raises(ValueError, match="needs a source"):
        Federation(None, problem)


def rewards_of_seed_3() -> np.random.Generator:
    """The stream of rewards of a play with seed 3."""
    return np.random.default_rng(play_stream(3, REWARDS))


def test_bad_set_up() -> None:
    instance = PaperSmall(6)(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"problem is for .5, 10. agents and arms"):
        Federation(instance, Problem(5, 10, 3, 0.1))
    for limit in (0, -1, 2.5, np.nan):
        with pytest.raises(ValueError, match="max_pulls"):
            small(max_pulls=limit)
    with pytest.raises(ValueError, match="c_b"):
        small(c_b=-1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_federation_belongs_to_one_process() -> None:
    federation = small()
    for use in (
        lambda: federation.pull(0, 0),
        lambda: federation.local([0], lambda block: Reals(block.pull_grid(1))),
        lambda: federation.stop(np.zeros(federation.agents.size, dtype=int)),
    ):
        child = os.fork()
        if child == 0:
            try:
                use()
            except PlayOver as error:
                os._exit(0 if "another process" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    federation.pull(0, 0)
    assert federation.pulls == 1
