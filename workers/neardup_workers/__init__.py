"""The processes of neardup: everything that touches files, streams, clocks and signals, around the library."""
