"""What one bad client does to Flower's strategies and to steadfed's, and what each strategy costs."""
