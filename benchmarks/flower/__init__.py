"""What one bad client does to Flower's strategies and to holdfast's, and what each strategy costs."""
