"""The catalogues of the translations, and what is between two marks of a page."""
