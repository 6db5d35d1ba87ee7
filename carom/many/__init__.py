"""The verb, often."""
