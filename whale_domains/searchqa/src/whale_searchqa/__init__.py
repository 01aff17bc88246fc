"""WHALE domain ``searchqa``: questions with a search tool."""
