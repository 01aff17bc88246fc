"""The command line: ``whale-run`` and ``whale``, one module per command."""
