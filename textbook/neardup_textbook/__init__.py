"""What the exercises of a textbook ask for and no stream needs: schemes, the theory of families, two commands.

The library and the workers find a scheme and a command here by its name when it is used, so nothing here is loaded
before. The book is Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", chapter 3.
"""
