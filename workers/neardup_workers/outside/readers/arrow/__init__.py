"""Tables of Arrow as input: Parquet, and the file and the stream of Arrow; they need the extra ``arrow``."""
