"""All that is known of a snapshot before a segment is read, and what each replica's facts are made of."""
