"""The queue manager: pure queue machine, pure replication core, gRPC shells around them and the loop."""
