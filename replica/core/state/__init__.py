"""What the parts of a domain share: log, facts, calls, outcomes, effects; never decides anything."""
