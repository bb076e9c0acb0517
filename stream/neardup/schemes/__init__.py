"""Numbers become keys and evidence, with a promise: one row a scheme."""
