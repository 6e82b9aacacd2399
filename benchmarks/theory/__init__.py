"""The theorems against measured runs: floors and speeds of problems whose constants are known."""
