"""Parts of `Workflow`: how operators learn, phase by phase, from a table and from rows that are added to it."""
