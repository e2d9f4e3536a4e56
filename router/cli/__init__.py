"""Command line of the router."""
