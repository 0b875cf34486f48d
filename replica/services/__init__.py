"""Makes calls of the bytes that clients send, and bytes of the outcomes; never decides what is ordered."""
