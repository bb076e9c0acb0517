"""Collections of documents: ids within them, and which values of a document can be signed."""
