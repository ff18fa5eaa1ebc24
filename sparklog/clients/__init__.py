"""What a person holds: the log, its topics, producers and consumers."""
