"""Files as such: paths, object stores, Hive folders, fingerprints, pins and temporary folders."""
