"""The sections of a report, each a function from facts to HTML."""
