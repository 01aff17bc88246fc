"""What counts as right: the exact string in the box, or a mathematically equal answer."""
