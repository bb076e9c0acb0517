"""Tables of Arrow: columns of documents in, columns of verdicts and pairs out. pyarrow is loaded on the first use."""
