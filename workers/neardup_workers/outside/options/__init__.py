"""The arguments and options of each command, declared once: the command line is made from them."""
