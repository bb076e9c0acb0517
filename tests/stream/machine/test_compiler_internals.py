"""Names of numba, llvmlite and uvicorn that are not their public interface: they exist, and releases are bounded."""

from __future__ import annotations

import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest
from numba.core.caching import Cache
from numba.core.compiler import CompileResult
from packaging.requirements import Requirement
from uvicorn.protocols.http.h11_impl import H11Protocol

from neardup.machine.stored import StoredKernel

ROOT = Path(__file__).resolve().parents[3]
# Module -> the names that ours import from it or reach into.
NEEDED = {
    "numba": ["_helperlib", "njit"],
    "numba.core": ["cgutils", "runtime"],
    "numba.core.cgutils": ["alloca_once", "alloca_once_value", "for_range", "get_or_insert_function", "pack_array"],
    "numba.core.compiler": ["CompileResult"],
    "numba.core.dispatcher": ["Dispatcher"],
    "numba.core.extending": ["_Intrinsic"],
    "numba.core.serialize": ["dumps"],
    "numba.core.types": ["BaseTuple", "Dispatcher"],
    "numba.extending": ["intrinsic"],
    "llvmlite": ["ir", "binding"],
    "llvmlite.binding": ["get_host_cpu_name", "get_host_cpu_features"],
    "uvicorn": ["Config", "Server"],
    "uvicorn.protocols.http.h11_impl": ["H11Protocol"],
}


@pytest.mark.parametrize("module", NEEDED)
def test_the_names_that_we_use_exist(module: str) -> None:
    """A release without one of them would break every new installation."""
    found = import_module(module)
    assert [name for name in NEEDED[module] if not hasattr(found, name)] == []


def test_what_is_compiled_can_be_written_and_read() -> None:
    """``StoredKernel`` calls these, and a dispatcher calls it."""
    for name in ("_reduce", "_rebuild"):
        assert hasattr(CompileResult, name), name
    for name in ("load_overload", "save_overload", "cache_path"):
        assert hasattr(Cache, name), name
        assert hasattr(StoredKernel, name), name


def test_a_connection_has_the_methods_that_ours_extends() -> None:
    """The protocol of uvicorn is subclassed."""
    for name in ("connection_made", "data_received", "on_response_complete", "timeout_keep_alive_handler"):
        assert callable(getattr(H11Protocol, name)), name


@pytest.mark.parametrize("name", ["numba", "llvmlite", "uvicorn"])
def test_releases_of_what_we_reach_into_are_bounded(name: str) -> None:
    """Above the installed release, which these tests have tried, and below a next one that no test has tried."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    (bounds,) = (Requirement(line).specifier for line in listed if Requirement(line).name == name)
    assert metadata.version(name) in bounds
    assert any(one.operator == "<" for one in bounds)
    assert "999" not in bounds
