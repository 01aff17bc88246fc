"""The command ``whale-searchqa``."""
