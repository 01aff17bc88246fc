"""The embedded rollout engine `transformers`: batch-invariant sampling in this process."""
