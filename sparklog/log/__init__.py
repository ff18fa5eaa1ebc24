"""Kafka's model on a table log: records, segments, partition logs, topics, producer state."""
