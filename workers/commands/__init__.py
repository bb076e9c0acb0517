"""The commands of ``neardup`` that run once and end; workers that keep running are in ``workers.service``."""
