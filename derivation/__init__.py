"""From a snapshot's files to tables of facts. No engine: Spark, or one process, schedules what is here."""
