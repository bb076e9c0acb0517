"""The commands of ``neardup`` that run once and end; those that run on are the workers beside this folder."""
