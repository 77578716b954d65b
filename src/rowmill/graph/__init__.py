"""Workflow graphs: selectors, nodes and operators. Knows no particular operator."""
