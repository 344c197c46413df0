"""What an instructor reads: the report, the reason for a grade, a regrade."""
