"""Two members over all their processes, and what everybody in a run shares; never decides what happens to them."""
