"""Frozen data: the Recording, the Scene, and the facts about torch's Nodes."""
