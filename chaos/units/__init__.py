"""`make demo-units`: flights in units of work, a cancelled airline, exchanged aircraft, and faults; accounted for."""
