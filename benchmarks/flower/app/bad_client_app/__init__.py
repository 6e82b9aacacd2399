"""An app for one benchmark: nodes that train, one of which lies as it is told, and a server that compares."""
