"""Evidence about torch and about a class: the seeds, other versions, derivatives, a demonstration."""
