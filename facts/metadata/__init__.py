"""What the metadata log says: replayed, kept as histories of brokers, settings and partitions, told as rows."""
