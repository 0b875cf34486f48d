"""Takes ports, and what else a manager needs of its machine; never decides what is served there."""
