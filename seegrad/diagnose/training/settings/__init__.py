"""What a training is set to, and isn't meant to be: its modules' modes, its rates, an optimiser made anew."""
