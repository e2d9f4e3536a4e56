"""Measure a router artifact, as shipped, against baselines on held-out rows."""
