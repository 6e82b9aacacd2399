"""Rules that compare directions: with each other, with history, or with a row the server trusts."""
