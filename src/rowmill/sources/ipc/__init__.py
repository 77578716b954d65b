"""Arrow IPC files (Feather) as a source."""
