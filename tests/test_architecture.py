"""The floors of the house: imports lead down, and public names stay."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import gymnasium as gym
import house
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym import policies

#: Names that users and scripts rely on. Names may be added, none may go.
PUBLIC = """
PULL STOP ArmIndex ArmSet Bernoulli Block Board BudgetExceeded Categorical ClusteredBAIEnv
ClusteredBAIVectorEnv DiscreteActions Federation Flag Gaussian Instance Judgement Ledger Payload PlayOver
Policy Problem Reals RewardModel StepPolicy Store audit datasets env evaluate generators harness play policies
replay sweep testing theory
""".split()  # noqa: SIM905
CLASSES = """
BAICl BAIClPlusPlus ClBAI LearnedPolicy NaiveSE RandomPolicy StructuredBAI UniformGLR UniformPolicy POLICIES
make
""".split()  # noqa: SIM905
IDS = """
ClusteredBAI-v0 ClusteredBAI-Discrete-v0 ClusteredBAI-PaperSmall-v0 ClusteredBAI-PaperRandom-v0
ClusteredBAI-PaperFlat-v0 ClusteredBAI-PaperSkewed-v0 ClusteredBAI-NearTie-v0 ClusteredBAI-Tiny-v0
ClusteredBAI-MovieLens-v0 ClusteredBAI-Yelp-v0 ClusteredBAI-MovieLensLike-v0 ClusteredBAI-YelpLike-v0
""".split()  # noqa: SIM905
VERBS = [
    "list",
    "compare",
    "show",
    "audit",
    "bounds",
    "reproduce",
    "train",
    "report",
]


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return house.graph()


def test_imports_lead_down_and_make_no_cycle(graph: dict[str, set[str]]) -> None:
    assert house.upward(graph) == []
    assert house.cycle(graph) == []


def test_every_room_has_a_floor(graph: dict[str, set[str]]) -> None:
    known = {name for names in house.FLOORS for name in names}
    assert {house.room(module) for module in graph} - {""} <= known


def test_the_checks_bite(graph: dict[str, set[str]]) -> None:
    game, harness = "clustered_bandit_gym.game.judge", "clustered_bandit_gym.harness.play"
    assert f"{game} -> {harness}" in house.upward({**graph, game: graph[game] | {harness}})
    assert house.cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]


def private_reaches(name: str, file: Path) -> list[str]:
    """``module: owner._attribute`` for each private attribute of an object that the file itself does not define."""
    text = file.read_text(encoding="utf-8")
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and re.fullmatch("_[a-z].*", node.attr):
            if node.attr in (
                "_asdict",
                "_replace",
                "_fields",
                "_make",
            ):  # public methods of a NamedTuple
                continue
            own = (
                ast.unparse(node.value) in ("self", "cls", "os", "np")
                or f"self.{node.attr}" in text
            )
            if not own and f"def {node.attr}(" not in text and f"    {node.attr}:" not in text:
                found.append(f"{name}: {ast.unparse(node)}")
    return found


def test_no_module_reaches_into_another_modules_private_attributes() -> None:
    """`x._y` is allowed for `self`, `cls`, and for an object of the module's own class (the name is defined there)."""
    found = [
        place for name, file in house.modules().items() for place in private_reaches(name, file)
    ]
    # Stable-Baselines3 has no public way to restart a model's schedule and counters from a checkpoint.
    found = [
        place for place in found if "policies.learned" not in place or ": model._" not in place
    ]
    assert found == []


def test_public_names() -> None:
    assert [name for name in PUBLIC if getattr(cbg, name, None) is None] == []


def test_public_policies_environments_and_verbs() -> None:
    from clustered_bandit_gym.cli import app

    assert [name for name in CLASSES if not hasattr(policies, name)] == []
    assert set(IDS) <= gym.registry.keys()
    assert set(VERBS) <= {str(command.name) for command in app.registered_commands}


def test_the_page_lists_every_folder(graph: dict[str, set[str]]) -> None:
    page = house.on_page_markdown("<!-- house -->")
    assert {
        room for room in map(house.room, graph) if room and f"| `{room}` |" not in page
    } == set()
