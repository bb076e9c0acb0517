"""Style: sizes, what the library may not touch, documentation; no exemptions."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from python_calls import COMPILED, decorators
from python_files import FILES, ROOT, named, nodes, text_of, tree
from room_imports import FILES as MODULES

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 12
TESTS = [path for path in FILES if path.name.startswith("test_")]
PRODUCT = [path for path in FILES if named(path).split("/")[0] != "tests"]

# What the library may not import -> what to do instead.
BANNED_IMPORTS = {
    "neardup_workers": "workers use the library, never the reverse",
    "benchmarks": "benchmarks use the library, never the reverse",
    "tests": "tests use the library, never the reverse",
    "asyncio": "return values; workers decide when to run",
    "io": "take and return bytes or str; workers read and write",
    "kafka": "give workers/neardup_workers/outside/transport the values to send",
    "logging": "count it in the table's state, or raise an error of errors.py",
    "multiprocessing": "kernels run without the interpreter lock; workers start threads and processes",
    "os": "take a setting as a field of Config",
    "pathlib": "take and return bytes or str; workers read and write",
    "prometheus_client": "return counts; workers publish them",
    "random": "derive numbers from Config.seed with hashing.derive_seed",
    "secrets": "derive numbers from Config.seed with hashing.derive_seed",
    "socket": "take and return bytes; workers/neardup_workers/outside/transport holds the connections",
    "subprocess": "take and return values; workers start processes",
    "sys": "take and return values; workers own the process",
    "time": "take the time as a value: an event time, or a number of seconds",
}
# What the library may not use -> what to do instead.
BANNED_NAMES = {
    "open": "take and return bytes or str; workers read and write",
    "print": "return the value; workers print",
    "input": "take the value as an argument",
    "hash": "neardup.machine.kernels.hashing: Python's hash differs from process to process",
    "id": "name things by their own ids: addresses differ from process to process",
    "Thread": "kernels run without the interpreter lock; workers start threads and processes",
    "Timer": "take the time as a value; workers start threads and processes",
    "datetime.now": "take the time as a value",
    "datetime.today": "take the time as a value",
    "datetime.utcnow": "take the time as a value",
    "date.today": "take the time as a value",
    "np.random": "derive numbers from Config.seed with hashing.derive_seed",
    "os.environ": "take a setting as a field of Config",
}
# Module -> what it alone may use: what must be known before any kernel exists, the files of compiled kernels, the
# windows of ``load_window`` and ``save_window``, and the addresses of objects that a kernel reads.
ALLOWED = {
    "neardup.machine.stored": {"pathlib"},
    "neardup.kernel_folder": {"os", "os.environ", "pathlib", "sys"},
    "neardup": {"pathlib"},
    "neardup.pairs.signing": {"id"},
    "neardup.pairs.values": {"id"},
}
# File -> what it uses of the compiler, outside of its room: documented interfaces only.
PUBLIC_COMPILER = {
    "benchmarks/texts.py": {"numba"},
}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every import, those inside functions too; ``from a import b`` is ``a.b`` and ``a``."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}:{node.lineno}: a relative import; write it in full"
            assert node.module
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, whole if whole in MODULES else node.module


def uses(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every plain name and of every attribute of one that is read."""
    for node in nodes(path):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"


def test_a_module_has_at_most_400_lines() -> None:
    """Someone new reads it in one sitting."""
    counts = {named(path): len(text_of(path).splitlines()) for path in FILES}
    long = [f"{name} has {lines} lines: split it" for name, lines in counts.items() if lines > MODULE_LINES_MAX]
    assert not long, "\n".join(long)


def test_a_function_has_at_most_60_lines() -> None:
    """It fits on a screen, its docstring included."""
    long = [
        f"{named(path)}:{node.lineno}: {node.name}: split it"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_a_folder_has_at_most_12_modules() -> None:
    """Besides ``__init__``; then it is time for a room of its own."""
    counts = {
        str(folder.relative_to(ROOT)): sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in sorted({path.parent for path in FILES})
    }
    assert {name: modules for name, modules in counts.items() if modules > FOLDER_MODULES_MAX} == {}


def test_the_library_touches_nothing_of_the_world() -> None:
    """No file, socket, clock, thread, environment, log or unseeded number; and no ``hash`` that changes by process."""
    for module, path in MODULES.items():
        if module.startswith(("neardup_workers", "neardup_textbook.commands")):
            continue
        allowed = ALLOWED.get(module, set())
        for line, name in imports(path):
            top = name.partition(".")[0]
            where = f"{named(path)}:{line}: no {top} in the library"
            assert top not in BANNED_IMPORTS.keys() - allowed, f"{where}; {BANNED_IMPORTS[top]}"
        for line, name in uses(path):
            where = f"{named(path)}:{line}: no {name} in the library"
            assert name not in BANNED_NAMES.keys() - allowed, f"{where}; {BANNED_NAMES[name]}"


def test_only_one_room_knows_the_compiler() -> None:
    """The others use its decorators and its primitives: private names of numba and instructions stand in one place.
    Only the maker of wheels calls the compiler, too."""
    for path in PRODUCT:
        if path.parent not in (ROOT / "stream" / "neardup" / "machine", ROOT / "wheel"):
            for line, name in imports(path):
                of_compiler = name.partition(".")[0] in ("numba", "llvmlite")
                assert not of_compiler or name in PUBLIC_COMPILER.get(named(path), set()), (
                    f"{named(path)}:{line}: imports {name}; use a decorator or a primitive of neardup.machine"
                )


def undocumented(path: Path) -> Iterator[str]:
    """What has no docstring: modules, and names without an underscore in them and in their classes."""
    module = tree(path)
    if not ast.get_docstring(module):
        yield f"{named(path)}: no docstring"
    for owner in [module, *(node for node in module.body if isinstance(node, ast.ClassDef) and node.name[0] != "_")]:
        for node in owner.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                setter = any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)
                if not setter and not ast.get_docstring(node):
                    yield f"{named(path)}:{node.lineno}: {node.name} has no docstring"


def test_every_public_name_is_documented() -> None:
    """Modules, classes, functions and methods that do not begin with an underscore; a property where it is read."""
    found = [where for path in PRODUCT for where in undocumented(path)]
    assert not found, "\n".join(found)


def compiled_functions(path: Path) -> set[ast.AST]:
    """The functions of a file whose body is compiled, with those inside them."""
    compiled: set[ast.AST] = set()
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef) and decorators(node) & COMPILED:
            compiled |= set(ast.walk(node))
    return compiled


def test_a_function_without_types_is_compiled() -> None:
    """The type checker lets kernels go without annotations, so this test holds every other function to them."""
    for path in PRODUCT:
        compiled = compiled_functions(path)
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef) and node not in compiled:
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                untyped = [one.arg for one in arguments if one.annotation is None and one.arg not in ("self", "cls")]
                where = f"{named(path)}:{node.lineno}: {node.name}"
                assert not untyped, f"{where} has no types for {', '.join(untyped)}: annotate it, or compile it"
                assert node.returns, f"{where} has no type for what it returns: annotate it, or compile it"


def test_every_test_says_its_fact() -> None:
    """In the first line of its docstring."""
    for path in TESTS:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                fact = (ast.get_docstring(node) or "").partition("\n")[0]
                assert fact, f"{named(path)}:{node.lineno}: {node.name} has no docstring"
                assert len(node.name.split("_")) > 2, f"{named(path)}:{node.lineno}: {node.name} is no sentence"


def test_test_folders_are_no_packages() -> None:
    """A package ``tests`` of another project would hide them, and theirs ours."""
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_the_linter_asks_for_documentation_everywhere_but_in_tests() -> None:
    """The rule stands in the configuration, with no file of the product taken out of it."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "D1" in lint["select"]
    undocumented = [files for files, rules in lint["per-file-ignores"].items() if any(r[0] == "D" for r in rules)]
    assert undocumented == ["tests/**"]
