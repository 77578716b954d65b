"""What `cache=` asks for: the store of one table, and the directory that holds all stores."""
