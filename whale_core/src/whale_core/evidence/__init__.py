"""What runs have shown: measured again, compared, and prepared for readers."""
