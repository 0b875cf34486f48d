"""Decides and applies what stands beside the queues: readers, batches, weights; never moves a message."""
