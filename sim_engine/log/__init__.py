"""A replica's log: batches, segments, epochs, producers, and what cleaning and tiering make of them."""
