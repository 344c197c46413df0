"""Words: the two languages, what is said of a Diagnosis, the twelve misconceptions."""
