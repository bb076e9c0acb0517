"""The commands of ``neardup`` that run once and end; ``service`` has the workers that keep running."""
