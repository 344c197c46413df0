"""What a training loop does around its gradients: who steps, clears, clips; who switches them off; who holds what."""
