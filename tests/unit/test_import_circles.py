"""No two modules import each other, neither at once nor through others: floors hold inside rooms, too."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import nhalf

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(nhalf.__file__).parent
FOUND = frozenset(
    {
        ("nhalf.evidence.probe.asked", "nhalf.evidence.probe.meeting"),
        ("nhalf.evidence.probe.joining", "nhalf.evidence.probe.session"),
    }
)
"""The circles that are left. One more is a fault, and one fewer is to be taken off here."""


def modules() -> dict[str, Path]:
    """Return the file of every module."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module, those under TYPE_CHECKING too, but none inside a function."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            yield from statements([*node.body, *node.orelse])


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports."""
    names: set[str] = set()
    for node in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            continue
        assert node.level == 0, f"{path} imports relatively, which this test does not follow"
        of = {f"{node.module}.{alias.name}" for alias in node.names}
        names |= {name if name in known else str(node.module) for name in of}
    return names & known.keys()


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Return circles until none is left, each as its modules in order; an arrow of a circle found is taken away."""
    graph = {name: set(names) for name, names in graph.items()}
    found = set()
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            ring = error.args[1]
            found.add(tuple(sorted(set(ring))))
            # The circle is of predecessors: each entry is imported by the one after it.
            graph[ring[1]].discard(ring[0])
        else:
            return found


def test_circles_are_found_and_named() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}
    assert circles(graph) == {("a", "b", "c"), ("d", "e")}


def test_no_modules_import_each_other() -> None:
    known = modules()
    graph = {name: imported(path, known) - {name} for name, path in known.items()}
    assert len(graph) > 400
    assert sum(map(len, graph.values())) > 2 * len(graph)
    assert circles(graph) == FOUND
