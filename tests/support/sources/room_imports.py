"""The modules of the packages, the layer and the room of each, and the imports between them."""

from __future__ import annotations

import ast
from functools import cache

from import_path import ROOTS
from python_files import ROOT, nodes

# The layers, ground first: a module imports from its own layer and from those above it in this list.
LAYERS = {
    "neardup.machine": "Instructions, hashes, compiled code.",
    "neardup.documents": "What comes in and goes out: values, ids.",
    "neardup.features": "Texts and tokens become numbers.",
    "neardup.window": "The only state: probe, then add.",
    "neardup.schemes": "Numbers become keys and evidence, with a promise.",
    "neardup.pairs": "Documents become pairs: sign, match, judge, explain.",
    "neardup.stories": "Pairs become decisions: what to keep, who was first.",
    "neardup_workers.outside": "What processes touch: files, feeds, topics, stores.",
    "neardup_workers.doing": "What a process does: stages, sessions, audits, requests.",
    "neardup_workers.running": "What is typed and what keeps running: commands, workers, help.",
}
# What only exercises need. It stands above all layers: it is loaded by name, and no module of a layer imports it.
TEXTBOOK = "neardup_textbook"
# Modules that stand next to the folders of their package -> their layer.
FRONT = {
    "neardup.errors": "neardup.machine",
    "neardup.kernel_folder": "neardup.machine",
    "neardup.deduplicator": "neardup.stories",
    "neardup": "neardup.stories",
    "neardup.__main__": "neardup.stories",
    "neardup_workers": "neardup_workers.outside",
    "neardup_workers.main": "neardup_workers.running",
    "neardup_workers.scrapy": "neardup_workers.doing",
}
FILES = {
    ".".join(path.relative_to(ROOT / root).with_suffix("").parts).removesuffix(".__init__"): path
    for root in ROOTS
    for path in sorted((ROOT / root).rglob("*.py"))
}


def layer_of(module: str) -> str:
    """The layer of a module: its folder, or its row in ``FRONT``; the textbook's package is one."""
    if module.partition(".")[0] == TEXTBOOK:
        return TEXTBOOK
    return FRONT.get(module) or ".".join(module.split(".")[:2])


def room_of(module: str) -> str:
    """The folder or the module of a layer that holds a module: ``neardup.features.texts``."""
    parts = module.split(".")
    return module if module in FRONT else ".".join(parts[: 2 if parts[0] == TEXTBOOK else 3])


@cache
def imported() -> dict[str, set[str]]:
    """Module -> the modules of the packages that it imports, inside functions too."""
    found: dict[str, set[str]] = {module: set() for module in FILES}
    for module, path in FILES.items():
        for node in nodes(path):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{alias.name}" for alias in node.names} & FILES.keys() or {node.module}
                names |= {node.module for alias in node.names if f"{node.module}.{alias.name}" not in FILES}
            else:
                continue
            found[module] |= names & FILES.keys() - {module}
    return found
