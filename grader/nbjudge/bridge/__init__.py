"""What crosses between the student's process and the judge, and how."""
