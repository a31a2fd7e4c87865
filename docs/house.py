"""The import graph of the package and a table of its layers. MkDocs calls `on_page_markdown`; the tests
use the graph.

Imports are read from the source with `ast`: lazy and type-only imports count like any other.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "clustered_bandit_gym"
#: Where the package's folders stand in the repository.
FOLDERS = {
    PACKAGE: PACKAGE,
    f"{PACKAGE}.policies": "policies",
    f"{PACKAGE}.envs_registry": "envs_registry",
}
#: The floors, top first. A module imports from its own room or from lower floors. One exception:
#: `policies.learned` trains on environments, so it may import `envs`.
FLOORS = (
    ("cli",),
    ("suite", "study", "reproduce", "testing"),
    ("harness",),
    ("policies", "envs"),
    ("datasets",),
    ("generators", "policy", "theory"),
    ("game",),
    ("imports", "settings_text", "envs_registry"),
    ("_types", "errors", "_version"),
)
ALLOWED_SIDEWAYS = (f"{PACKAGE}.policies.learned", "envs")


def modules() -> dict[str, Path]:
    """Name of every module of the package, and its file."""
    found = {}
    for prefix, folder in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([prefix, *parts])] = file
    return found


def imports(file: Path, known: set[str]) -> set[str]:
    """The modules of the package that `file` imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else str(node.module))
    return found & known


def graph() -> dict[str, set[str]]:
    """Module -> the modules it imports."""
    files = modules()
    return {name: imports(file, set(files)) - {name} for name, file in files.items()}


def room(module: str) -> str:
    """The first level of a module's name below the package, e.g.

    ``game``; "" for the package itself.
    """
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def upward(edges: dict[str, set[str]]) -> list[str]:
    """Imports that do not lead to the same room or to a lower floor, as ``importer -> imported``."""
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    found = []
    for module, targets in edges.items():
        if module == PACKAGE:  # the package itself only collects public names
            continue
        for target in sorted(targets):
            here, there = room(module), room(target)
            sideways = module.startswith(ALLOWED_SIDEWAYS[0]) and there == ALLOWED_SIDEWAYS[1]
            if here != there and not sideways and floor.get(there, -1) <= floor.get(here, -1):
                found.append(f"{module} -> {target}")
    return found


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Some import cycle, [] if there is none. The package itself is left out."""
    done: set[str] = {PACKAGE}

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for after in sorted(edges[node]):
            if found := visit(after, [*path, node]):
                return found
        done.add(node)
        return []

    for start in sorted(edges):
        if found := visit(start, []):
            return found
    return []


def table() -> str:
    """The layers as a Markdown table, top first: each folder with its modules."""
    files = modules()
    lines = ["| layer | folder | modules |", "|---:|---|---|"]
    for number, names in enumerate(FLOORS):
        for name in names:
            prefix = f"{PACKAGE}.{name}."
            inside = [module.removeprefix(prefix) for module in files if module.startswith(prefix)]
            listed = ", ".join(inside).replace("_", r"\_") or "(one file)"
            lines.append(f"| {len(FLOORS) - number} | `{name}` | {listed} |")
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs hook: put the table where a page asks for it."""
    return markdown.replace("<!-- house -->", table())
