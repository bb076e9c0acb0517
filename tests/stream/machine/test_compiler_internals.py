"""Names of numba, llvmlite and uvicorn that are not their public interface: they exist, and releases are bounded."""

from __future__ import annotations

import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest
from numba.core.caching import FunctionCache
from packaging.requirements import Requirement
from uvicorn.protocols.http.h11_impl import H11Protocol

ROOT = Path(__file__).resolve().parents[3]
# Module -> the names that ours import from it or reach into.
NEEDED = {
    "numba": ["_helperlib", "njit"],
    "numba.core": ["cgutils", "runtime"],
    "numba.core.caching": ["FunctionCache", "NullCache"],
    "numba.core.cgutils": ["alloca_once", "get_or_insert_function", "pack_array"],
    "numba.core.event": ["install_listener", "Listener"],
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


def test_a_cache_of_kernels_has_the_parts_that_ours_replaces() -> None:
    """``StoredKernel`` stands in for it, and names its files itself."""

    def function() -> None:
        """A function to cache."""

    cache = FunctionCache(function)
    for name in ("cache_path", "load_overload", "save_overload", "_index_key", "_cache_file", "_impl"):
        assert hasattr(cache, name), name
    for name in ("_source_stamp", "_load_data", "_save_data"):
        assert hasattr(cache._cache_file, name), name
    for name in ("locator", "filename_base", "check_cachable", "reduce", "rebuild"):
        assert hasattr(cache._impl, name), name
    assert hasattr(cache._impl.locator, "ensure_cache_path")


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
