"""Measurements as ratios to the plain run, both sides alternating in one process."""
