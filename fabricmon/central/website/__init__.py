"""The status page over HTTP: its routes, the history it draws, the runbooks beside it."""
