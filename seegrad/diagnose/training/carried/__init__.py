"""What is to be carried over and isn't: to another model, to the next step, from an inner loop to its outer one."""
