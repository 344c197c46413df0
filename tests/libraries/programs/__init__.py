"""What runs on the libraries: tiny models at random, nothing downloaded."""
