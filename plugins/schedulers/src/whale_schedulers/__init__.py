"""Schedulers: when to switch between training the weights and searching the harness."""
