"""A Spark application: it sums some numbers when it is told to, prints the sum, and is there until its input ends."""

import sys

from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
for line in sys.stdin:
    print("sum", session.range(int(line)).groupBy().sum().head()[0], flush=True)
session.stop()
