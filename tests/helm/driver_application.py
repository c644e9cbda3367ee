"""A Spark application that does nothing: it is there until its standard input ends."""

import sys

from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
sys.stdin.read()
session.stop()
