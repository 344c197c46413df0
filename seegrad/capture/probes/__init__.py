"""What is asked of torch and of Python: their private parts, the user's lines, variables and values."""
