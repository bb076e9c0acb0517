"""``python -m neardup``: the command ``neardup``."""

from workers.__main__ import main

if __name__ == "__main__":
    main()
