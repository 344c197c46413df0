"""What a training is set to: its modules' modes, its rates, the optimisers that are made for it."""
