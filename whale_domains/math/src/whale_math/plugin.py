"""The entry point: what this package registers. Nothing heavy is imported here."""
