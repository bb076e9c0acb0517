"""Compiled code: the one room that uses private names of the compiler, and all instructions that are written by hand.

``compile`` has the decorators of kernels, ``stored`` keeps compiled kernels on disk. The other modules have primitives:
functions of a few instructions for kernels to call. docs/MACHINE_CODE.md explains each of them.
"""

from neardup.machine import bits, lanes, memory, utf8, words
from neardup.machine.choice import refuse_unknown
from neardup.machine.code import PRIMITIVES

__all__ = ["PRIMITIVES", "bits", "lanes", "memory", "utf8", "words"]

refuse_unknown(name for name, one in PRIMITIVES.items() if one.model)
