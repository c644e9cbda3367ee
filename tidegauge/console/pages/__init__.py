"""Pages: `Asked` in, `Page` out. One module for each kind, each with the addresses it answers (`add`)."""
