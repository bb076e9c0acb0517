"""Machine code of all kernels, made beforehand: ``python wheel/emit.py FOLDER``. ``FOLDER LEVEL [KERNEL ...]`` makes
that of one level of processors, of all kernels or of some; ``FOLDER caller`` what calls them, with ``CFLAGS``.

Numba compiles each kernel for the types that its decorator declares. From its optimised module comes an object with one
function that others see, ``int entry(int64_t *slots, void *result, void **error)``: it reads the arguments from the
slots. All objects are linked to FOLDER/LEVEL.so. FOLDER/kernels.json says of each kernel which functions it has, for
which types: a line a kernel, which ``neardup.machine.choice`` and ``wheel/caller.c`` read.

The file needs libc and libm, and nothing of Python: how a string of Python is read, the caller gives by an address. Any
other name that is not defined fails the build. The same sources give the same bytes in every folder. Objects are kept
in the folder of compiled kernels: a second run makes those that changed.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

PACKAGES = ("neardup", "neardup_textbook", "neardup_workers")
# What a level is for LLVM, and nothing of the processor that compiles.
LEVELS = {"x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v4"), "aarch64": ("generic",)}.get(platform.machine(), ())
CALLER = "caller"
# NumPy's numbers of the types of elements, as letters: ``caller.c`` compares them.
ELEMENTS = {"bool": "a", "int8": "b", "uint8": "c", "int16": "d", "uint16": "e", "int32": "f", "uint32": "g",
            "int64": "h", "uint64": "i", "float32": "l", "float64": "m"}  # fmt: skip
NUMBERS = {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
           "int64": "l", "uint64": "L", "float32": "f", "float64": "d"}  # fmt: skip
# The one function outside of libc and libm that kernels call: its address is a variable of the file, weak because each
# object of a kernel that reads Python's texts has it, and the linker keeps one.
READER = "numba_extract_unicode"
_READER_TEXT = f"""
@neardup_{READER} = weak global ptr null
define ptr @{READER}(ptr %o, ptr %length, ptr %kind, ptr %ascii, ptr %hash) {{
  %f = load ptr, ptr @neardup_{READER}
  %r = tail call ptr %f(ptr %o, ptr %length, ptr %kind, ptr %ascii, ptr %hash)
  ret ptr %r
}}
"""


def kernels() -> list[Any]:
    """Return every kernel that Python calls, by name."""
    from declared import name_of
    from numba.core.dispatcher import Dispatcher

    for package in map(importlib.import_module, PACKAGES):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            has_kernels = "@kernel(" in path.read_text(encoding="utf-8")
            if path.stem != "__main__":  # a module without kernels may need an optional package
                with nullcontext() if has_kernels else suppress(Exception):
                    importlib.import_module(".".join((package.__name__, *path.relative_to(root).with_suffix("").parts)))
    found = (one for one in gc.get_objects() if isinstance(one, Dispatcher) and getattr(one, "declared", ()))
    return sorted((one for one in found if one.__module__.partition(".")[0] in PACKAGES), key=name_of)


def argument_text(kind: Any) -> str:
    """Return the type of an argument as ``caller.c`` reads it."""
    from numba.core import types

    if isinstance(kind, types.Array):
        return f"A{ELEMENTS[str(kind.dtype)]}{kind.ndim}{'w' if kind.mutable else 'r'}"
    return result_text(kind, argument_text)


def result_text(kind: Any, of: Any = None) -> str:
    """Return the type of a result as ``caller.c`` reads it."""
    from numba.core import types

    if isinstance(kind, types.BaseTuple):
        return f"({''.join(map(of or result_text, kind.types))})"
    return "N" if isinstance(kind, types.NoneType) else NUMBERS[str(kind)]


def entries(level: str, names: list[str]) -> Iterator[tuple[str, tuple[str, str, str], bytes]]:
    """Yield of each declaration of each kernel the kernel's name, its line's part, and its object: made, or kept from
    an earlier run if nothing that decides it has changed."""
    from declared import declared_types, name_of

    from neardup.machine.stored import stored

    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    for kernel in kernels():
        if not names or name_of(kernel) in names:
            for number, text in enumerate(kernel.declared):
                entry = f"{name_of(kernel).replace('.', '_')}_{number}"
                make = functools.partial(_made, kernel, text, entry, level)
                yield name_of(kernel), *stored(entry, make, (declared_types(kernel, text), sources))


def _made(kernel: Any, text: str, entry: str, level: str) -> tuple[tuple[str, str, str], bytes]:
    """Return the types of the arguments and of the result of one declaration with its entry, and its object."""
    from declared import declared_types
    from llvmlite import binding

    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=level, features="", opt=3, reloc="pic", codemodel="default"
    )
    kinds = declared_types(kernel, text)
    kernel.compile(kinds)
    compiled = kernel.overloads[kinds]
    line = "".join(map(argument_text, kinds)), result_text(compiled.fndesc.restype), entry
    return line, _object(compiled, entry, machine)


def _object(compiled: Any, entry: str, machine: Any) -> bytes:
    """Return the object of one compiled kernel: everything but its entry is private to it."""
    from llvmlite import binding

    convention = compiled.target_context.call_conv
    shape = convention.get_function_type(compiled.fndesc.restype, compiled.fndesc.argtypes)
    kinds = ["ptr" if one.is_pointer else str(one) for one in shape.args[2:]]
    lines = [f"define i32 @{entry}(ptr %slots, ptr %result, ptr %error) {{"]
    for i, kind in enumerate(kinds):
        lines += [f"  %g{i} = getelementptr i64, ptr %slots, i64 {i}", f"  %a{i} = load {kind}, ptr %g{i}, align 8"]
    arguments = "".join(f", {kind} %a{i}" for i, kind in enumerate(kinds))
    name = compiled.fndesc.llvm_func_name
    lines += [f'  %s = call i32 @"{name}"(ptr %result, ptr %error{arguments})', "  ret i32 %s", "}"]
    text = str(compiled.library._get_module_for_linking())
    text = text.replace("@numba_frexp(", "@frexp(")  # numba's calls that of libm
    if f"@{READER}(" in text:
        text = "\n".join(line for line in text.splitlines() if not (line.startswith("declare") and READER in line))
        text += _READER_TEXT
    module = binding.parse_assembly("\n".join([text, *lines]))
    module.verify()
    seen = (entry, f"neardup_{READER}")
    for one in [*module.functions, *module.global_variables]:
        if not one.is_declaration and one.name not in seen:
            one.linkage = "internal"
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()  # how Python calls it, of which a file of machine code knows nothing
    passes.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options()))
    return bytes(machine.emit_object(module))


def key() -> str:
    """Return the hash of all that the kernels are made from: equal in every folder with the same sources."""
    from neardup.machine.closure import closure_key

    return closure_key(*kernels())


def write_tables(folder: Path) -> None:
    """Write the tables that take long to make."""
    import numpy as np

    from neardup.features.texts.normalize import NormalForm, fold_arrays

    for name, arrays in [fold_arrays(NormalForm())]:
        for i, array in enumerate(arrays):
            np.save(folder / f"{name}.{i}.npy", array)


def make_caller(folder: Path) -> None:
    """Compile what calls the kernels, for this Python."""
    import sysconfig

    import numpy as np

    include = [f"-I{path}" for path in (sysconfig.get_paths()["include"], np.get_include())]
    out = folder / f"caller{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = Path(__file__).with_name("caller.c")
    warnings = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    options = ["-O2", "-fPIC", "-shared", *warnings, "-Wno-cast-function-type", *include]
    further = os.environ.get("CFLAGS", "").split()
    subprocess.run(["cc", *options, *further, "-o", str(out), str(source)], check=True)


def make_all(folder: str) -> None:
    """Make everything that a wheel has: a process for each level, because numba reads the level once."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not LEVELS:
        sys.exit(f"no machine code is made for {platform.machine()}: a wheel without it compiles with neardup[jit]")
    levels = [subprocess.Popen([sys.executable, __file__, folder, level]) for level in LEVELS]
    if sum(one.wait() for one in levels):
        sys.exit("a level of processors was not made: its message stands above")
    make_caller(Path(folder))


def make_level(folder: str, level: str, *names: str) -> None:
    """Make FOLDER/LEVEL.so, and the lists of kernels."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    listed: dict[str, list[tuple[str, str, str]]] = {}
    with tempfile.TemporaryDirectory() as made:
        for name, line, code in entries(level, list(names)):
            listed.setdefault(name, []).append(line)
            (Path(made) / f"{line[-1]}.o").write_bytes(code)
        library = target / f"{level}.so"
        files = sorted(map(str, Path(made).glob("*.o")))
        options = "-shared -nostartfiles -Wl,--gc-sections,-Bsymbolic,-s,--no-undefined,--build-id=none"
        subprocess.run(["cc", *options.split(), "-o", str(library), *files, "-lm", "-lc"], check=True)
    (target / "kernels.json").write_text(json.dumps(listed, indent=0) + "\n")
    (target / "made.json").write_text(json.dumps({"key": key()}) + "\n")
    write_tables(target)
    sys.stdout.write(f"{level}: {len(listed)} kernels, {len(files)} entries, {library.stat().st_size:,} bytes\n")


def main(arguments: list[str] | None = None) -> None:
    """Make all, or one level."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", help="where the files go")
    parser.add_argument("level", nargs="?", choices=(*LEVELS, CALLER), help="one level of processors; all without it")
    parser.add_argument("kernels", nargs="*", help="full names; all without them")
    given = parser.parse_args(arguments)
    if given.level is None:
        make_all(given.folder)
    elif given.level == CALLER:
        make_caller(Path(given.folder))
    else:
        os.environ |= {"NUMBA_CPU_NAME": given.level, "NUMBA_CPU_FEATURES": "", "NEARDUP_KERNELS": "jit"}
        make_level(given.folder, given.level, *given.kernels)


if __name__ == "__main__":
    main()
