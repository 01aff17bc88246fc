"""Does a ``"module:Class"`` reference look whole? Answered from the files, importing nothing.

A plugin's heavy module may take seconds to import; to read and compile its source takes
milliseconds. Where the files leave a doubt the answer is no, and the caller imports after all.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec


def looks_whole(reference: str) -> bool:
    """Say whether the module is there and compiles, defines the name, and finds its imports.

    Only imports at the outermost level of the module and its parent packages are looked for.
    """
    module, _, attribute = reference.partition(":")
    try:
        trees = [_tree(name) for name in _with_parents(module)]
    except Exception:  # missing, unreadable, no Python: importing will tell
        return False
    if trees[-1] is None:
        return True  # compiled code: nothing to read
    return attribute in _names(trees[-1].body) and all(
        _is_there(name) for tree in trees if tree for name in _imported(tree)
    )


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _spec(name: str) -> ModuleSpec | None:
    """Find a module as an import would, without importing its parents."""
    parent, _, _ = name.rpartition(".")
    if not parent:
        return find_spec(name)
    above = _spec(parent)
    if above is None or above.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, list(above.submodule_search_locations))


def _tree(name: str) -> ast.Module | None:
    """Return a module's compiled syntax tree, None for one without source; raise if it is bad."""
    spec = _spec(name)
    if spec is None:
        raise ModuleNotFoundError(name)
    source = spec.loader.get_source(name) if isinstance(spec.loader, InspectLoader) else None
    if source is None:
        return None
    tree = ast.parse(source)
    compile(tree, spec.origin or name, "exec", dont_inherit=True)
    return tree


def _names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a module certainly defines."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(each.id for each in targets if isinstance(each, ast.Name))
    return names


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the packages that a module imports whatever happens."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _is_there(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False
