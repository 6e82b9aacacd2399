"""A complete Flower app: a task, a client, a server that does not believe everything."""
