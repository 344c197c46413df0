"""What runs inside the two processes: the student's side and the judge's. Started by name, never imported."""
