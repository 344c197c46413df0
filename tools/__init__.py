"""What builds the course and the front end; nothing here is installed with the library."""
