"""Tensors that two processes share, and all that the package asks of torch."""
