"""``python -m neardup``: the command ``neardup``, a program of the workers. The library imports none of them."""

from runpy import run_module

if __name__ == "__main__":
    run_module("neardup_workers.main", run_name="__main__")
