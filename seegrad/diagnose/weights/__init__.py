"""What becomes of a Parameter's own numbers: rounded away, moved off a mask, no longer another one's."""
