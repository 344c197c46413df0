"""Where the data came from, whether or not autograd followed it."""
