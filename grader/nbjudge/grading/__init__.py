"""Grade: one notebook, a class, on one machine or many."""
