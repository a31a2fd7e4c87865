"""The import graph of the package and the picture of it. MkDocs calls `on_page_markdown`; the tests
use the graph.

Imports are read from the source with `ast`: lazy and type-only imports count like any other.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

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


def contents(name: str) -> list[str]:
    """The folders and files of a room, as the picture lists them."""
    home = ROOT / (name if name in FOLDERS.values() else f"{PACKAGE}/{name}")
    if not home.is_dir():
        return []
    listed = []
    for path in sorted(home.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.is_dir() and any(path.glob("*.py")):
            inside = sorted(file.stem for file in path.rglob("*.py") if file.stem != "__init__")
            listed.append(f"{path.name}/ {', '.join(inside)}" if inside else f"{path.name}/")
        elif path.suffix == ".py" and not path.stem.startswith("__"):
            listed.append(path.stem)
    return listed


def picture() -> str:
    """The floors as inline SVG, from the graph: a box per room, an arrow per import that no chain
    of arrows implies.
    """
    edges = graph()
    present = {room(name) for name in edges} - {""}
    arrows = {
        (room(a), room(b)) for a, targets in edges.items() for b in targets if room(a) and room(b)
    }
    arrows = {
        (a, b)
        for a, b in arrows
        if a != b and not any((a, x) in arrows and (x, b) in arrows for x in present - {a, b})
    }
    width, y, boxes, parts = 1000, 10, {}, []
    for names in FLOORS:
        here = [name for name in names if name in present]
        if not here:
            continue
        texts = {name: _wrap(contents(name), max(16, 118 // len(here) - 4)) for name in here}
        height = 30 + 15 * max(len(lines) for lines in texts.values())
        each = (width - 20 * (len(here) - 1)) / len(here)
        for number, name in enumerate(here):
            boxes[name] = (number * (each + 20), y, each, height, texts[name])
        y += height + 44
    for a, b in sorted(arrows):
        ax, ay, aw, ah, _ = boxes[a]
        bx, by, bw, _, _ = boxes[b]
        x1, y1, x2, y2 = ax + aw / 2, ay + ah, bx + bw / 2, by
        if y2 <= y1:  # the same floor
            x1, y1, x2, y2 = ax + aw, ay + ah / 2, bx, ay + ah / 2
        parts.append(
            f'<path d="M{x1:.0f},{y1:.0f} L{x2:.0f},{y2:.0f}" class="arrow" marker-end="url(#tip)"/>'
        )
    for name, (x, top, w, h, lines) in boxes.items():
        parts.append(
            f'<rect x="{x:.0f}" y="{top}" width="{w:.0f}" height="{h}" rx="6" class="room"/>'
        )
        parts.append(f'<text x="{x + 10:.0f}" y="{top + 20}" class="name">{escape(name)}</text>')
        for row, line in enumerate(lines):
            parts.append(
                f'<text x="{x + 10:.0f}" y="{top + 38 + 15 * row}" class="file">{escape(line)}</text>'
            )
    style = (
        ".room{fill:#eef4f6;stroke:#2b6c86}.name{font:bold 14px sans-serif;fill:#12303c}"
        ".file{font:11px sans-serif;fill:#33505c}.arrow{stroke:#9db7c1;stroke-width:1.2;fill:none}"
    )
    tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="#9db7c1"/></marker>'  # noqa: E501
    return (
        f'<div class="layers"><svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 0 {width + 4} {y - 30}" role="img" '
        f'aria-label="Folders of the package in layers, and their imports"><style>{style}</style><defs>{tip}</defs>'
        + "".join(parts)
        + "</svg></div>"
    )


def _wrap(items: list[str], columns: int) -> list[str]:
    lines: list[str] = []
    for item in items:
        line = ""
        for word in item.split(" "):
            if line and len(line) + 1 + len(word) > columns:
                lines.append(line)
                line = "    " + word
            else:
                line = f"{line} {word}" if line else word
        if (
            lines
            and "/" not in item
            and "/" not in lines[-1]
            and len(lines[-1]) + 3 + len(line) <= columns
        ):
            lines[-1] += f", {line}"
        else:
            lines.append(line)
    return lines


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs hook: put the picture where a page asks for it."""
    return (
        markdown.replace("<!-- house -->", picture()) if "<!-- house -->" in markdown else markdown
    )
