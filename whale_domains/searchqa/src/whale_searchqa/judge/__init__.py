"""The verifier ``llm-judge``: a chat model says whether an answer names what a reference names."""
