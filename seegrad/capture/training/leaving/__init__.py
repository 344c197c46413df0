"""What leaves torch, and comes back without its history."""
