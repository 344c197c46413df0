"""One learner: where they are in the course, what they predicted, on which device they work."""
