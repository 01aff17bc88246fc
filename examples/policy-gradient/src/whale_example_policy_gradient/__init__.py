"""An example weight update: policy gradient with a clipped importance ratio."""
