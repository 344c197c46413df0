"""Classes to grade, and a peer to grade them with."""
