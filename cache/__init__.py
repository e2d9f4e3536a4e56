"""Answer what is already known: an exact cache and a guarded semantic cache."""
