"""How a group shares partitions: pure functions, one a file."""
