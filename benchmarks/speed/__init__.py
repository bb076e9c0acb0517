"""Speed and memory: the command, the table, the linker, the readers of tables, the least that a document can cost."""
