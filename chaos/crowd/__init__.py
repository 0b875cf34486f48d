"""A crowd at a pair: silent connections, floods, idle consumers; what the pair does meanwhile."""
