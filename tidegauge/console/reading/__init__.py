"""What pages ask of the store: a `Reader` and names in, rows of views out. One module for each page."""
