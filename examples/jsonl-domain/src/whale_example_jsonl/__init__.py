"""An example domain: questions and answers from a JSONL file."""
