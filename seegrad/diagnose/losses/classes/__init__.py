"""What is to be probabilities of classes, and isn't: never normalised, normalised over others, of mixed numbers."""
