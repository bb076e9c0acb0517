"""Everything that can be typed: the commands and their options."""
