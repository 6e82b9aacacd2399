"""An app for one benchmark: nodes that train, one of which is Byzantine, and a server that compares."""
