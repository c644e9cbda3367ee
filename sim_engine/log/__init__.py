"""A replica's log: batches, segments, epochs, producers, and what cleaning, tiering and recovery make of them."""
