"""What a support engineer asks first, about this machine and about a pair; it changes nothing that it looks at."""
