"""What a course keeps beside nbgrader's own rows, and who stands where."""
