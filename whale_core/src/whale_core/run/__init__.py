"""A run: the alternation loop, its folder on disk, its ledger and its evaluation."""
