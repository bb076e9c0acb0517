"""``python -m neardup``: the command ``neardup``."""

from neardup_workers.main import main

if __name__ == "__main__":
    main()
