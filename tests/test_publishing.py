"""What a release needs: one version everywhere, valid metadata, a paper of the right length."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version() -> None:
    version = PROJECT["version"]
    assert f'__version__ = "{version}"' in read("clustered_bandit_gym/_version.py")
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    newest, date = re.findall(r"^## (\S+) — (\S+)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    assert newest == version
    assert f"\ndate-released: {date}\n" in read("CITATION.cff")


def test_the_address_of_the_repository_stands_in_one_place() -> None:
    address = PROJECT["urls"]["Repository"]
    placeholder = "OWNER/clustered-bandit-gym"
    assert address.endswith(placeholder)
    for name in ("README.md", "CITATION.cff", "CONTRIBUTING.md", "paper/paper.md"):
        assert placeholder not in read(name)
        assert "pip install clustered-bandit-gym" not in read(name), (
            f"{name}: there is no release on the index yet"
        )


def test_the_paper_has_the_right_length_and_cites_what_it_lists() -> None:
    text = read("paper/paper.md").partition("\n---\n")[2]
    assert 750 <= len(text.split()) <= 1750
    for heading in ("Software design", "Research impact statement", "AI usage disclosure"):
        assert f"\n# {heading}\n" in text
    keys = set(re.findall(r"@\w+\{(\w+),", read("paper/paper.bib")))
    assert set(re.findall(r"@(\w+)", text)) == keys


def test_actions_are_pinned_by_hash_and_may_only_read() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        used = re.findall(r"uses: (\S+)", text)
        assert all(one.startswith("./") or re.search(r"@[0-9a-f]{40}$", one) for one in used), used
        assert "\npermissions:\n  contents: read\n" in text, path.name


def test_community_files() -> None:
    for name in (
        "CODE_OF_CONDUCT.md",
        "SECURITY.md",
        "LICENSE",
        ".github/pull_request_template.md",
    ):
        assert len(read(name)) > 300
