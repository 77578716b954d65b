"""Mergeable statistics: exact, whatever the order of rows."""
