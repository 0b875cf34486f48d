"""A disk that lies about its last writes: a pair killed under load, one copy hurt, and what the pair still has."""
