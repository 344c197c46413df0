"""What a conversation takes along besides values: parts, names, files, and the process around it."""
