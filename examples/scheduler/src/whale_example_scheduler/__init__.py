"""An example scheduler: weight phases become shorter as the reward rises."""
