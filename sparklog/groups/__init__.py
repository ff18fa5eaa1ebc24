"""Consumer groups: a state machine in a table log, run by whoever is a member."""
