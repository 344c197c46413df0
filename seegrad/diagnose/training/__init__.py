"""What a training loop makes of gradients that are right: who steps with them, who is frozen, what is kept."""
