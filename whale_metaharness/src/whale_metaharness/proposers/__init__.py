"""Who writes candidates: one file or folder for each proposer but ``mutation``."""
