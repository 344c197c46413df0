"""What has been seen so far: one table each of tensors, Nodes, saved tensors, Frames, writes and hooks."""
