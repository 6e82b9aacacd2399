"""SuperLink and SuperNodes on one machine: started, watched and stopped."""
