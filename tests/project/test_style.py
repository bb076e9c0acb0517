"""Style: sizes, rooms, the direction of imports, what the library may not touch, documentation; no exemptions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

from python_calls import COMPILED, decorators
from python_files import FILES, ROOT, named, nodes, text_of, tree
from room_imports import DOCS, ROOMS, architecture, arrows, picture, reachable, room_of
from room_imports import FILES as MODULE_FILES
from room_imports import MODULES as MODULE_NAMES

LIBRARY = sorted((ROOT / "stream").rglob("*.py"))
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 12
TESTS = [path for path in FILES if path.name.startswith("test_")]
COMMANDS = "neardup.workers.commands"
PRODUCT = [path for path in FILES if named(path).split("/")[0] != "tests"]

# Modules of the library, ground floor first: a module imports only from the rows above its own. So the table, right
# after the ground, knows no scheme and no measure, and siblings in a row never import each other.
LAYERS: list[set[str]] = [
    {
        "errors",
        "kernels",
        "machine.choice",
        "texts",
        "tokens",
        "vectors",
        "records",
        "theory",
        "evaluation",
        "estimates",
    },
    {"machine.stored", "evaluation.resampling"},
    {"machine.compile"},
    {"machine.code"},
    {f"machine.{module}" for module in ("bits", "lanes", "memory", "sums", "tiles", "utf8", "words")},
    {"machine", "table.pages", "table.admit", "table.counters", "table.steps"},
    {"table.heads"},
    {"table.chains"},
    {"table.views"},
    {"table.walks"},
    {"table.step"},
    {"table.band_table"},
    {"table.window", "table.again"},
    {"table"},
    {
        "kernels.hashing",
        "documents",
        "texts.unicode_table",
        "vectors.pairwise",
    },
    {"kernels.strings", "kernels.utf8", "kernels.escapes", "collections.ids", "collections"},
    {"texts.raw_texts"},
    {"texts.unicode_fold", "kernels.json_scan"},
    {"texts.canonical_order", "texts.fold_stretches"},
    {"texts.normalize"},
    {"texts.reading", "texts.words", "texts.kgrams", "theory.measures"},
    {"tokens.elements", "tokens.bags", "tokens.verify"},
    {"tokens.token_order"},
    {"records.nicknames", "evaluation.calibration", "evaluation.judging"},
    {"evaluation.clusters"}
    | {f"estimates.{module}" for module in ("intervals", "limits", "rate_alarm", "sample_index")},
    {"estimates.loss_accounts", "vectors.draws", "vectors.packed_bits", "vectors.projections", "vectors.vector_input"},
    {"texts.url_tokens", "texts.plain_words"},
    {"texts.shingles"},
    {"theory.shingle_length"},
    {"signatures"},
    {
        "signatures.bit_sampling",
        "signatures.hyperplanes",
        "signatures.minhash",
        "signatures.one_permutation",
        "signatures.p_stable",
        "signatures.partial",
        "signatures.permutation",
        "signatures.winnowing",
    },
    {"theory.cascades", "signatures.passage_runs"},
    {"theory.families", "theory.curves", "theory.shapes"},
    {"signatures.banding", "theory.tuning", "records.scoring"},
    {"records.blocking", "signatures.partial_banding", "theory.weighing"},
    {"parameters"},
    {"scheme_interface"},
    {"shards", "schemes.grid_functions", "schemes.one_pass", "schemes.short_texts"},
    {"schemes.sets", "schemes.identical", "schemes.records", "schemes.grids"},
    {"schemes.partial_sets", "schemes.passages", "schemes.prefix", "schemes.vector_measures"},
    {"schemes.vectors"},
    {"schemes"},
    {"config", "collections.values"},
    {"batches", "pair_rule"},
    {"pipeline"},
    {"json_lines", "window_message"},
    {"explanations", "explanations.given_texts", "explanations.passages", "explanations.relations"},
    {"explanations.explain", "arrow", "arrow.columns", "arrow.ids"},
    {
        "neighbours",
        "neighbours.nearest",
        "verdicts",
        "verdicts.representatives",
        "verdicts.row_columns",
    },
    {"verdicts.records"},
    {"verdicts.stories", "verdicts.held"},
    {"verdicts.leads", "verdicts.saved"},
    {"verdicts.rule", "sources", "sources.names"},
    {"verdicts.restoring", "sources.accounts", "sources.losses"},
    {"sources.brake", "sources.reports", "canaries.draws", "canaries.allowance"},
    {"verdicts.decisions", "sources.readings", "canaries.edits"},
    {"verdicts.rows_before", "sources.ledger", "canaries.pool"},
    {"verdicts.decider", "canaries.looks", "windows", "windows.constant_texts"},
    {"arrow.tables", "canaries", "canaries.canaries", "windows.messages"},
    {"deduplicator"},
    {""},
]
# What the library may not import -> what to do instead.
BANNED_IMPORTS = {
    "workers": "workers use the library, never the reverse",
    "benchmarks": "benchmarks use the library, never the reverse",
    "tests": "tests use the library, never the reverse",
    "asyncio": "return values; workers decide when to run",
    "io": "take and return bytes or str; workers read and write",
    "kafka": "give workers/transport the values to send",
    "logging": "count it in the table's state, or raise an error of errors.py",
    "multiprocessing": "kernels run without the interpreter lock; workers start threads and processes",
    "os": "take a setting as a field of Config",
    "pathlib": "take and return bytes or str; workers read and write",
    "prometheus_client": "return counts; workers publish them",
    "random": "derive numbers from Config.seed with hashing.derive_seed",
    "secrets": "derive numbers from Config.seed with hashing.derive_seed",
    "socket": "take and return bytes; workers/transport holds the connections",
    "subprocess": "take and return values; workers start processes",
    "sys": "take and return values; workers own the process",
    "time": "take the time as a value: an event time, or a number of seconds",
}
# What the library may not use -> what to do instead.
BANNED_NAMES = {
    "open": "take and return bytes or str; workers read and write",
    "print": "return the value; workers print",
    "input": "take the value as an argument",
    "hash": "neardup.stream.kernels.hashing: Python's hash differs from process to process",
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
# Module -> what it alone may use: the switch that replaces instructions is read before any kernel exists.
ALLOWED = {"machine.choice": {"os", "os.environ"}}
# File -> what it uses of the compiler, outside of its room: documented interfaces only.
PUBLIC_COMPILER = {"workers/process/compiling.py": {"numba.core"}, "benchmarks/texts.py": {"numba"}}


def module_of(path: Path) -> str:
    """``table.heads`` for ``stream/table/heads.py``, ``table`` for its package, nothing for ``stream`` itself."""
    parts = path.relative_to(ROOT / "stream").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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
                yield node.lineno, whole if whole in MODULES or whole in MODULE_NAMES else node.module


MODULES = {f"neardup.stream.{module_of(path)}".rstrip(".") for path in LIBRARY}


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


def test_every_module_of_the_library_has_a_row() -> None:
    """And every row has its modules: the list is what there is."""
    rows = [module for layer in LAYERS for module in layer]
    assert sorted(rows) == sorted(module_of(path) for path in LIBRARY)


def test_a_module_imports_only_from_rows_above_it() -> None:
    """No arrow runs back, or sideways."""
    row = {module: i for i, layer in enumerate(LAYERS) for module in layer}
    back = [
        f"{named(path)}:{line}: imports {name}, which is not above it in LAYERS"
        for path in LIBRARY
        for line, name in imports(path)
        if name == "neardup.stream" or name.startswith("neardup.stream.")
        if row[name.removeprefix("neardup.stream").removeprefix(".")] >= row[module_of(path)]
    ]
    assert not back, "\n".join(back)


def test_the_two_packages_have_one_import_name() -> None:
    """In a checkout ``import stream`` works too, and makes a second ``Config`` that no function of ours accepts."""
    wrong = re.compile(r"^\s*(?:>>> )?(?:from|import) (stream|workers)\b", re.M)
    found = {named(path): match for path in FILES if (match := wrong.search(text_of(path)))}
    assert not found, "\n".join(f"{name}: {match[0]!r}; write neardup.{match[1]}" for name, match in found.items())


def test_every_module_is_in_a_room() -> None:
    """And every room has its modules: the text is what there is."""
    homeless = [name for name in MODULE_FILES if room_of(name) is None]
    assert homeless == ["neardup.stream.__init__", "neardup.workers.__init__", "neardup.workers.transport.__init__"]
    assert {room_of(name) for name in MODULE_NAMES} == {room.name for room in ROOMS}


def test_a_room_uses_rooms_of_lower_floors_only() -> None:
    """No arrow runs back, or sideways: neither in the text nor in the imports."""
    floors = {one.name: one.floor for one in ROOMS}
    back = [
        f"{room.name} uses {other}, which is on no lower floor of docs/rooms.txt"
        for room in ROOMS
        for other in {*room.uses, *arrows()[room.name]}
        if floors[other] >= room.floor
    ]
    assert not back, "\n".join(back)


def test_the_arrows_of_a_room_are_its_imports() -> None:
    """Each arrow is one, and each import is an arrow or follows from several. Workers may use all of the library."""
    for room in ROOMS:
        imported = {other for other in arrows()[room.name] if other.startswith(f"{room.package}/")}
        absent = imported - reachable(room.name)
        assert not absent, f"{room.name} imports {absent}: add the arrow to docs/rooms.txt and run python docs/rooms.py"
        unused = set(room.uses) - imported
        assert not unused, f"{room.name} imports nothing of {unused}: remove the arrow from docs/rooms.txt"


def test_no_modules_of_the_workers_import_each_other_in_a_circle() -> None:
    """Inside a room either; imports inside functions count."""
    graph: dict[str, set[str]] = {}
    for name, path in MODULE_FILES.items():
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
                graph.setdefault(name, set()).update(found & MODULE_NAMES)
    list(TopologicalSorter(graph).static_order())


def test_only_the_command_line_knows_commands() -> None:
    """A command is no library: what two of them share is in a room below, and no command imports another one."""
    for name, found in arrows().items():
        assert "workers/commands" not in found or name == "workers/cli"
    commands = {name: path for name, path in MODULE_FILES.items() if name.startswith(f"{COMMANDS}.")}
    leaks = [
        f"{named(path)}:{line}: imports {other}: move what both commands use to a room below"
        for name, path in commands.items()
        for line, other in imports(path)
        if other.startswith(f"{COMMANDS}.") and other.split(".")[3] != name.split(".")[3]
    ]
    assert not leaks, "\n".join(leaks)


def test_a_folder_has_at_most_12_modules() -> None:
    """Besides ``__init__``; then it is time for a room of its own."""
    counts = {
        str(folder.relative_to(ROOT)): sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in sorted({path.parent for path in FILES})
    }
    assert {name: modules for name, modules in counts.items() if modules > FOLDER_MODULES_MAX} == {}


def test_the_picture_and_the_list_are_made_from_the_text() -> None:
    """``python docs/rooms.py`` would change neither; the picture is well-formed and has two sets of colours."""
    drawn = (DOCS / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == picture(ROOMS), "run python docs/rooms.py"
    document = (DOCS / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert document == architecture(document, ROOMS), "run python docs/rooms.py"
    ElementTree.fromstring(drawn)
    assert "prefers-color-scheme: dark" in drawn


def test_the_library_touches_nothing_of_the_world() -> None:
    """No file, socket, clock, thread, environment, log or unseeded number; and no ``hash`` that changes by process."""
    for path in LIBRARY:
        allowed = ALLOWED.get(module_of(path), set())
        for line, name in imports(path):
            top = name.removeprefix("neardup.").partition(".")[0]
            where = f"{named(path)}:{line}: no {top} in stream/"
            assert top not in BANNED_IMPORTS.keys() - allowed, f"{where}; {BANNED_IMPORTS[top]}"
        for line, name in uses(path):
            where = f"{named(path)}:{line}: no {name} in stream/"
            assert name not in BANNED_NAMES.keys() - allowed, f"{where}; {BANNED_NAMES[name]}"


def test_only_one_room_knows_the_compiler() -> None:
    """The others use its decorators and its primitives: private names of numba and instructions stand in one place."""
    for path in PRODUCT:
        if path.parent != ROOT / "stream" / "machine":
            for line, name in imports(path):
                of_compiler = name.partition(".")[0] in ("numba", "llvmlite")
                assert not of_compiler or name in PUBLIC_COMPILER.get(named(path), set()), (
                    f"{named(path)}:{line}: imports {name}; use a decorator or a primitive of neardup.stream.machine"
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
    """``tests/stream/__init__.py`` would hide the package ``stream``."""
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_the_linter_asks_for_documentation_everywhere_but_in_tests() -> None:
    """The rule stands in the configuration, with no file of the product taken out of it."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "D1" in lint["select"]
    undocumented = [files for files, rules in lint["per-file-ignores"].items() if any(r[0] == "D" for r in rules)]
    assert undocumented == ["tests/**"]
