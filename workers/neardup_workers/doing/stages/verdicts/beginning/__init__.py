"""How a linker begins: the first one of a stream, one that restores, one that stands by."""
