"""Vectors of texts, by models that need no network and no processor of graphics."""
