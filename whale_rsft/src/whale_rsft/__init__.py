"""RSFT: online rejection-sampling fine-tuning, θ ← ModelUpdate(θ; h).

``rsft`` is the method, ``trainers`` the protocol of what makes its optimizer steps, ``torch_trainer``
the one on one device: ``places`` says where its module is, ``packing`` computes tokens that rows
share once, ``losses`` weighs them, ``lora`` trains a low-rank part alone.
"""
