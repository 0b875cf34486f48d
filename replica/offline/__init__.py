"""Makes, checks and fills stores outside of a running manager; never says which copy is current."""
