"""Commands, and parts of them, that are loaded by their name: ``calibrate``, ``tune --family``, rates of grids."""
