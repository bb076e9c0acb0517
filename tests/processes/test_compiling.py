"""What a first run says while the program is compiled for the machine."""

from workers.process.compiling import Compiling


def test_the_first_function_is_announced_and_the_time_of_nested_ones_counts_once():
    """A function may be compiled inside of another, and further ones are only counted."""
    lines, clock = [], iter([10.0, 15.0, 20.0, 21.0])
    watch = Compiling(lines.append, lambda: next(clock))
    watch.on_start(None)
    watch.on_start(None)
    watch.on_end(None)
    watch.on_end(None)
    watch.on_start(None)
    watch.on_end(None)
    assert (watch.functions, watch.seconds) == (3, 6.0)
    assert [line.startswith("compiling the program for this machine, once") for line in lines] == [True]


def test_the_compiler_reports_to_it():
    """Through its own events, for a function that is compiled now."""
    import numba

    lines = []
    with Compiling(lines.append) as watch:
        numba.njit(lambda x: x + 1)(1)
        assert watch.functions == 1
    numba.njit(lambda x: x + 2)(1)
    assert watch.functions == 1
    assert watch.seconds > 0
