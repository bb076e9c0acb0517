"""Records: forms of one name, keys that make candidates, scores of fields."""
