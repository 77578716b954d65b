"""From decoded columns to packed rows: selection of columns, null policy, packing, lists and transposition."""
