"""`make hostile`: hostile inputs, from without and from a client with a certificate, at a live pair."""
