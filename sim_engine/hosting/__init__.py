"""How brokers host coordinators: requests in, records and markers out."""
