"""`make secure-demo`: who may do what at a pair with certificates, asked of each call, through faults."""
