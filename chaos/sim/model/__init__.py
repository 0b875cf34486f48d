"""The exhaustive small model: every order of steps of a pair inside a bound, over the product's own core."""
