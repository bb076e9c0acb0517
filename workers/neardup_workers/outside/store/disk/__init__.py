"""The files of a store: changes that move to the database, checksums of its pages, room that is held for removals."""
