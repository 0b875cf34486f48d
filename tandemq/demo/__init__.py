"""A story that anybody can check: a pair loses its master under load, twice, and every row is accounted for."""
