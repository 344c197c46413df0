"""Gradients that a step was to use, and that never came to it."""
