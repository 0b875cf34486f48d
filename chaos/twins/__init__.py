"""`make demo-twin`: two processes that do the same on flight records, and faults; compared with a single one."""
