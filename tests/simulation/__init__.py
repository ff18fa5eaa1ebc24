"""Seeded simulation: real clients on a faulty store, under a scheduler that owns time."""
