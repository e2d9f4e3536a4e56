"""Answer what is simple, on this machine (System 1)."""
