"""The demonstration: the stock PyTorch `DataLoader` against Rowmill, on one table, with one model.

`python -m rowmill.tools.demo --output FOLDER` makes a Criteo-shaped table, races the two, trains the same
small model with both, prints what came out and draws it. Needs the extra `demo`.
"""
