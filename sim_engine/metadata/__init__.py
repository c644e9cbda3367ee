"""The metadata log, its image and snapshots, and what a controller decides in it."""
