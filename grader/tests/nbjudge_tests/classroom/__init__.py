"""Classes of students: small, honest, hostile; and the commands that grade them."""
