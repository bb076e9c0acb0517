"""The files that commands write: lines, tables, verdicts, clusters, windows."""
