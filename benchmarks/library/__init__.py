"""Programs, sides and paired measurements of recording."""
