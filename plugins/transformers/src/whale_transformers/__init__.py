"""The embedded rollout engine `transformers`: batch-invariant sampling from a Hugging Face model."""
