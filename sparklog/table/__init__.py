"""Delta Lake table logs: actions, state by replay, checkpoints, conflict rules, the committer."""
