"""Web pages: their text, taken from the markup in processes of its own."""
