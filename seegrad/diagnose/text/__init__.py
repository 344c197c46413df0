"""What the program's own text shows, once the Recording says that it ran."""
