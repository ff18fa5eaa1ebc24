"""The command `sparklog`: a log's topics and records from a shell."""
