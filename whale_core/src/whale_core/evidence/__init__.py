"""What runs have shown, prepared for readers."""
