"""The way from what clients send into the K × d matrix: received, matched to who was asked, checked, read in place."""
