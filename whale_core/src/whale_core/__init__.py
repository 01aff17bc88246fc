"""WHALE: train an agent's weights and its harness together.

The core holds what must be right once for every method: rollouts, verification, sealed evaluation,
accounting and durability. What defines a *method* (how weights are updated, how harnesses are
searched, when to switch) is a plugin. Importing this package is cheap: it pulls in no torch.
"""

__version__ = "0.1.0"
