"""Tandemq: a fault-tolerant queue service in which two managers keep every queue."""
