"""Rows that meet others than their own: what is known of which numbers of a batch belong together."""
