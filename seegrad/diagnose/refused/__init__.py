"""What torch refuses outside of any graph: to unscale halves, to copy results, to begin at many numbers, numpy."""
