"""What a loss is given that doesn't fit together: what is computed, and what it is compared with."""
