"""For tests and plugin authors: a toy domain that a tiny random model can learn in seconds."""
