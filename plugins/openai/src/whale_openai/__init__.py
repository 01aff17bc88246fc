"""The rollout engine `openai`: any OpenAI-compatible Chat Completions endpoint."""
