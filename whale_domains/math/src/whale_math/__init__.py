"""WHALE domain ``math``: math problems with a Python tool."""
