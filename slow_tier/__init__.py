"""Answer what is complex with any OpenAI-compatible server (System 2)."""
