"""The commands of ``neardup`` that run once and end; the workers that keep running are in ``service``."""
