"""Documents from files, folders and standard input."""
