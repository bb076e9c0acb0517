"""Six texts in pairs, and the similarity of two of them."""

# Three pairs of texts: of one sentence, of two sentences with an equal half, and of nothing in common but blanks.
PAIRS = [
    ("a", "seven wizards boil their jugs of liquid in a quiet corner"),
    ("b", "seven wizards boil their jugs of liquid in a quiet corner!"),
    ("c", "the quick brown fox jumps over the lazy dog while a bird looks at it"),
    ("d", "the quick brown fox jumps over the lazy dog, and then it goes home to its den"),
    ("e", "a ferry leaves at noon"),
    ("f", "every train waits for us"),
]


def jaccard(a, b):
    """The Jaccard similarity of two texts of the sample, as sets of five characters."""
    one, other = ({text[i : i + 5] for i in range(len(text) - 4)} for text in (dict(PAIRS)[a], dict(PAIRS)[b]))
    return len(one & other) / len(one | other)
