"""Watch torch: what a program did, gathered in tables while it runs and frozen into a Recording."""
