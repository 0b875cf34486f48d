"""Changes the state by a record, the same at both members; never decides, never refuses."""
