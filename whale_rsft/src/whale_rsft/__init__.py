"""RSFT: online rejection-sampling fine-tuning, θ ← ModelUpdate(θ; h).

``rsft`` is the method, ``trainers`` the protocol of what makes its optimizer steps; of the trainer
on one device, ``torch_trainer``, ``places`` says where its module is, ``packing`` computes tokens
that rows share once, ``losses`` weighs them, and ``lora`` trains a low-rank part alone.
"""
