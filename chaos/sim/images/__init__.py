"""What a power loss may leave on a disk: taken from system calls of real commits, opened again by the product."""
