"""``whale new``: writes a complete plugin package from the templates beside this file."""
