"""The course on disk: what was released and handed in, the gradebook, feedback, exports."""
