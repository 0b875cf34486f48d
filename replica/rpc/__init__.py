"""What all gRPC calls share: services put together, requests read, refusals sent; never what a call does."""
