"""What torch refuses outside of any graph: to unscale halves, to copy results."""
