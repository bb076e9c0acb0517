"""What commands show on standard output: tables, pictures in characters, an overview of pairs."""
