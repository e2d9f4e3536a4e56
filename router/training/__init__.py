"""Train the router artifact from public data sets.

Everything here needs the ``train`` extra (torch, transformers, sentence-transformers);
nothing outside this folder imports it. ``python -m router.training --help`` lists the stages.
"""
