"""Records: the names that are alike, the fields by which two meet, the score of what they hold."""
