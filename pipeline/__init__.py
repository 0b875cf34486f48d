"""The data pipeline on Spark: jobs that run on top of a pair's journal. No queue manager imports it."""
