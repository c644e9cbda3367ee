"""What the steps of one audit hand to each other: the run directory, its scope, its failures. No step is here."""
