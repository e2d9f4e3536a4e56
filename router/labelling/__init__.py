"""Label prompts for a user's own pair of models, without torch."""
