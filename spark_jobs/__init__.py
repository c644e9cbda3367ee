"""What runs on Spark: the data source of segments, the two ways to share out a derivation, the session, the job."""
