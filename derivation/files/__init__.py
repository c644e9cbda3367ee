"""One kind of file each: found in a snapshot, read within bounds, handed on as values."""
