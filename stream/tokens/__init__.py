"""Sets, bags and ratings given as elements -> features; the order of tokens; what two of them share, exactly."""
